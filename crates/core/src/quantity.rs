//! Amounts of cpu and memory, read as Kubernetes reads them.
//!
//! A text is a number, with or without a `+` and a point, and one suffix or none: `n`, `u`, `m`, `k`, `M`, `G`, `T`,
//! `P`, `E` in steps of a thousand, `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei` in steps of 1024, or a power of ten such as
//! `e3` or `E-3`. A number with more than eighteen decimals is refused. Amounts are rounded up to thousandths of a
//! core or to bytes. A bare JSON number is read too. Amounts below zero are refused.
//!
//! An amount is always written as a text: the shortest one without a point that is read as the same amount.

mod read;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use self::read::{Measure, read};

/// The reason why a quantity was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuantity {
    /// The text is neither a number nor a number with a known suffix.
    #[error("'{given}' is not an amount of {of}: must be {expected}")]
    Malformed {
        /// The given value.
        given: String,
        /// The measured resource.
        of: &'static str,
        /// Examples of what is accepted.
        expected: &'static str,
    },
    /// The amount is too large for this type.
    #[error("'{given}' is too large an amount of {of}")]
    TooLarge {
        /// The given value.
        given: String,
        /// The measured resource.
        of: &'static str,
    },
}

/// Cpu in thousandths of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cpu(u64);

/// Memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Memory(u64);

const CPU: Measure = Measure { of: "cpu", expected: "a number of cores such as 2, 0.5 or 500m", decimals: 3 };
const MEMORY: Measure = Measure {
    of: "memory",
    expected: "a size such as 4Gi, 512Mi or 1.5G, or a number of bytes",
    decimals: 0,
};

impl Cpu {
    /// An amount of this many thousandths of a core.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The amount in thousandths of a core.
    pub const fn millis(self) -> u64 {
        self.0
    }
}

impl Memory {
    /// An amount of this many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The amount in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Formats the amount for people: in the largest unit that fits, rounded down to a tenth.
    pub fn rounded(self) -> String {
        let units = [("Ti", 1_u64 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20)];
        let Some((suffix, unit)) = units.into_iter().find(|(_, unit)| self.0 >= *unit) else {
            return self.to_string();
        };
        match (self.0 / unit, self.0 % unit / (unit / 10)) {
            (whole, 0) => format!("{whole}{suffix}"),
            (whole, tenths) => format!("{whole}.{}{suffix}", tenths.min(9)),
        }
    }
}

/// The units that memory is written in. Of texts of equal length, that with the first unit is chosen.
const WRITTEN: [(&str, u64); 13] = [
    ("Ei", 1 << 60),
    ("Pi", 1 << 50),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("E", 10_u64.pow(18)),
    ("P", 10_u64.pow(15)),
    ("T", 10_u64.pow(12)),
    ("G", 10_u64.pow(9)),
    ("M", 10_u64.pow(6)),
    ("k", 10_u64.pow(3)),
    ("", 1),
];

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(millis) = self;
        if millis.is_multiple_of(1000) { write!(f, "{}", millis / 1000) } else { write!(f, "{millis}m") }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = self;
        let dividing = WRITTEN.iter().filter(|(_, unit)| *bytes != 0 && bytes.is_multiple_of(*unit));
        let texts = dividing.map(|(suffix, unit)| format!("{}{suffix}", bytes / unit));
        f.write_str(&texts.min_by_key(String::len).unwrap_or_else(|| "0".to_owned()))
    }
}

macro_rules! quantity {
    ($($name:ident: $measure:ident),+) => {$(
        impl FromStr for $name {
            type Err = InvalidQuantity;

            fn from_str(given: &str) -> Result<Self, InvalidQuantity> {
                read(given, &$measure).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any($measure).map(Self)
            }
        }
    )+};
}

quantity!(Cpu: CPU, Memory: MEMORY);

#[cfg(test)]
mod tests;
