//! Enumerations that are written as fixed strings in rows, on the wire and in messages.
//!
//! A closed enumeration knows all its values: a value in a request has to be one of them. A stored enumeration also
//! has the variant `Unknown`, so that a value that a newer version wrote survives when this version writes the row
//! back. Only [`Stored::from_stored`] creates such a value; requests and settings are parsed by `FromStr` and
//! `Deserialize`, which refuse unknown values.

use std::collections::BTreeSet;
use std::fmt;

use parking_lot::Mutex;

/// Declares an enumeration of strings, with one table for reading and writing them; `stored` adds `Unknown`.
macro_rules! string_enum {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$value_doc:meta])* $value:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $value),+
        }

        $crate::string_enum::string_enum_impls! { $name, $what { $($value = $text),+ } {} }
    };
    ($(#[$doc:meta])* stored $name:ident, $what:literal { $($(#[$value_doc:meta])* $value:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $value,)+
            /// A value of a newer version, as it is stored in the row.
            Unknown($crate::string_enum::UnknownValue),
        }

        $crate::string_enum::string_enum_impls! {
            $name, $what { $($value = $text),+ } { Self::Unknown(unknown) => unknown.as_str() }
        }

        impl $crate::string_enum::Stored for $name {
            fn from_stored(text: &str) -> Self {
                let known = Self::ALL.iter().copied().find(|value| value.as_str() == text);
                known.unwrap_or_else(|| Self::Unknown($crate::string_enum::UnknownValue::intern(text)))
            }
        }
    };
}

/// The common part of both forms of [`string_enum`].
macro_rules! string_enum_impls {
    ($name:ident, $what:literal { $($value:ident = $text:literal),+ } { $($unknown:pat => $unknown_text:expr)? }) => {
        impl $name {
            /// All values that this version knows, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// The string that stands for the value.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                    $($unknown => $unknown_text,)?
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::string_enum::UnknownVariant;

            fn from_str(given: &str) -> Result<Self, $crate::string_enum::UnknownVariant> {
                Self::ALL.iter().copied().find(|value| value.as_str() == given).ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|value| value.as_str()).collect();
                    $crate::string_enum::UnknownVariant {
                        given: given.to_owned(),
                        what: $what,
                        known: $crate::string_enum::alternatives(&known),
                    }
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let given = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                Self::ALL
                    .iter()
                    .copied()
                    .find(|value| value.as_str() == given)
                    .ok_or_else(|| serde::de::Error::unknown_variant(&given, &[$($text),+]))
            }
        }
    };
}

pub(crate) use {string_enum, string_enum_impls};

/// A string that is not a known value of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not {} {what}: must be {known}", article(what))]
pub struct UnknownVariant {
    /// The given value.
    pub given: String,
    /// The name of the enumeration in messages.
    pub what: &'static str,
    /// The known values, as a list of alternatives.
    pub known: String,
}

/// The indefinite article of a noun.
fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// Lists values as alternatives: `a, b or c`.
pub fn alternatives(values: &[&str]) -> String {
    match values {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// An enumeration that rows store. Reading it never fails, because a newer version may have written the value.
pub trait Stored: Sized {
    /// The value that this text stands for, or `Unknown` with the text.
    fn from_stored(text: &str) -> Self;
}

/// A value that this version does not know.
///
/// The text is interned, so that enumerations that contain it are `Copy`. Its memory is never freed, and is bounded
/// by the number of distinct values in the database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnknownValue(&'static str);

static INTERNED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

impl UnknownValue {
    /// Interns a text. Only functions called `from_stored` may call this function, because a known text must not
    /// become an unknown value.
    pub(crate) fn intern(text: &str) -> Self {
        let mut interned = INTERNED.lock();
        if let Some(known) = interned.get(text) {
            return Self(known);
        }
        let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
        interned.insert(text);
        Self(text)
    }

    /// The text, as it was read.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Debug for UnknownValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Deserializes a stored enumeration, for `#[serde(deserialize_with)]` of fields that are stored as JSON.
pub(crate) fn deserialize_stored<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Stored,
    D: serde::Deserializer<'de>,
{
    let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
    Ok(T::from_stored(&text))
}

/// Deserializes a set of a stored enumeration, for `#[serde(deserialize_with)]`.
pub(crate) fn deserialize_stored_set<'de, T, D>(deserializer: D) -> Result<BTreeSet<T>, D::Error>
where
    T: Stored + Ord,
    D: serde::Deserializer<'de>,
{
    let texts = <BTreeSet<String> as serde::Deserialize>::deserialize(deserializer)?;
    Ok(texts.iter().map(|text| T::from_stored(text)).collect())
}

#[cfg(test)]
mod tests;
