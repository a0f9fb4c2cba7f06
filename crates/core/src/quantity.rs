//! Amounts of cpu and memory, read and written as Kubernetes does.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a quantity was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuantity {
    /// Neither a number nor a number with a known suffix.
    #[error("'{given}' is not an amount of {of}: {expected} is expected")]
    Malformed {
        /// What was given.
        given: String,
        /// What it should measure.
        of: &'static str,
        /// Examples of what is accepted.
        expected: &'static str,
    },
    /// A number that does not fit.
    #[error("'{given}' is too large an amount of {of}")]
    TooLarge {
        /// What was given.
        given: String,
        /// What it should measure.
        of: &'static str,
    },
}

/// Cpu in thousandths of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cpu(u64);

/// Memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Memory(u64);

impl Cpu {
    /// This many thousandths of a core.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Thousandths of a core.
    pub const fn millis(self) -> u64 {
        self.0
    }
}

impl Memory {
    /// This many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// Suffixes from the largest down, binary before decimal, so that the first that divides is the shortest form.
const MEMORY_SUFFIXES: [(&str, u64); 11] = [
    ("Pi", 1 << 50),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("P", 1_000_000_000_000_000),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1_000),
    ("K", 1_000),
];

impl FromStr for Cpu {
    type Err = InvalidQuantity;

    fn from_str(given: &str) -> Result<Self, InvalidQuantity> {
        let (number, unit) = match given.strip_suffix('m') {
            Some(number) => (number, 1),
            None => (given, 1000),
        };
        scale(given, number, unit, "cpu", "2, 0.5 or 500m").map(Self)
    }
}

impl FromStr for Memory {
    type Err = InvalidQuantity;

    fn from_str(given: &str) -> Result<Self, InvalidQuantity> {
        let (number, unit) = MEMORY_SUFFIXES
            .iter()
            .find_map(|(suffix, unit)| Some((given.strip_suffix(suffix)?, *unit)))
            .unwrap_or((given, 1));
        scale(given, number, unit, "memory", "4Gi, 512Mi, 1.5G or a number of bytes").map(Self)
    }
}

/// `number` (digits, at most one point) times `unit`, rounded up as Kubernetes does.
fn scale(
    given: &str,
    number: &str,
    unit: u64,
    of: &'static str,
    expected: &'static str,
) -> Result<u64, InvalidQuantity> {
    let malformed = || InvalidQuantity::Malformed { given: given.to_owned(), of, expected };
    let too_large = || InvalidQuantity::TooLarge { given: given.to_owned(), of };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
        return Err(malformed());
    }
    // Nine decimals are a billionth of the unit: the most that can matter.
    if fraction.len() > 9 {
        return Err(malformed());
    }
    let denominator = 10_u128.pow(u32::try_from(fraction.len()).map_err(|_| malformed())?);
    let numerator: u128 = if whole.is_empty() && fraction.is_empty() {
        0
    } else {
        format!("{whole}{fraction}").parse().map_err(|_| too_large())?
    };
    let scaled = numerator.checked_mul(u128::from(unit)).ok_or_else(too_large)?.div_ceil(denominator);
    u64::try_from(scaled).map_err(|_| too_large())
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) { write!(f, "{}", self.0 / 1000) } else { write!(f, "{}m", self.0) }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |unit: u64| self.0 != 0 && self.0.is_multiple_of(unit);
        match MEMORY_SUFFIXES.iter().find(|(_, unit)| fits(*unit)) {
            Some((suffix, unit)) => write!(f, "{}{suffix}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

macro_rules! as_string {
    ($($name:ident),+) => {$(
        impl TryFrom<String> for $name {
            type Error = InvalidQuantity;

            fn try_from(given: String) -> Result<Self, InvalidQuantity> {
                given.parse()
            }
        }

        impl From<$name> for String {
            fn from(amount: $name) -> Self {
                amount.to_string()
            }
        }
    )+};
}

as_string!(Cpu, Memory);

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2", 2000)]
    #[case("0.5", 500)]
    #[case(".5", 500)]
    #[case("500m", 500)]
    #[case("1.0005", 1001)]
    #[case("0", 0)]
    fn cpu_is_read_in_cores_or_thousandths(#[case] given: &str, #[case] millis: u64) {
        assert_eq!(given.parse::<Cpu>(), Ok(Cpu::from_millis(millis)));
    }

    #[rstest]
    #[case("4Gi", 4 << 30)]
    #[case("1.5Ki", 1536)]
    #[case("512M", 512_000_000)]
    #[case("1k", 1000)]
    #[case("17", 17)]
    fn memory_is_read_with_its_suffix(#[case] given: &str, #[case] bytes: u64) {
        assert_eq!(given.parse::<Memory>(), Ok(Memory::from_bytes(bytes)));
    }

    #[rstest]
    #[case("")]
    #[case("m")]
    #[case("-1")]
    #[case("1e3")]
    #[case("two")]
    #[case("1.2.3")]
    #[case("1 ")]
    #[case("0.0000000001")]
    fn what_is_no_amount_of_cpu_is_refused_with_the_value(#[case] given: &str) {
        let error = given.parse::<Cpu>().unwrap_err().to_string();
        assert_eq!(error, format!("'{given}' is not an amount of cpu: 2, 0.5 or 500m is expected"));
    }

    #[rstest]
    #[case("99999999999999999999")]
    #[case("18446744073709551615Gi")]
    #[case("999999999999999999999999999999999999999999")]
    fn what_does_not_fit_is_refused(#[case] given: &str) {
        assert_eq!(
            given.parse::<Memory>(),
            Err(InvalidQuantity::TooLarge { given: given.to_owned(), of: "memory" })
        );
    }

    #[rstest]
    #[case("2000m", "2")]
    #[case("1.25", "1250m")]
    fn cpu_is_written_in_its_shortest_form(#[case] given: &str, #[case] written: &str) {
        assert_eq!(given.parse::<Cpu>().unwrap().to_string(), written);
    }

    #[rstest]
    #[case("4096Mi", "4Gi")]
    #[case("1500000", "1500k")]
    #[case("1537", "1537")]
    #[case("0", "0")]
    fn memory_is_written_in_its_shortest_form(#[case] given: &str, #[case] written: &str) {
        assert_eq!(given.parse::<Memory>().unwrap().to_string(), written);
    }
}
