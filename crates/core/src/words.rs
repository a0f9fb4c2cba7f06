//! Enumerations that are written as fixed words in rows, on the wire and in messages.

/// Declares an enumeration whose values are words, with one table for reading and writing them.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$value_doc:meta])* $value:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$value_doc])* #[serde(rename = $word)] $value),+
        }

        impl $name {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// The word that stands for the value.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word),+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(given: &str) -> Result<Self, $crate::words::UnknownWord> {
                Self::ALL.iter().copied().find(|value| value.as_str() == given).ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|value| value.as_str()).collect();
                    $crate::words::UnknownWord { given: given.to_owned(), what: $what, known: known.join(", ") }
                })
            }
        }
    };
}

pub(crate) use words;

/// A word that is none of those expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is no {what}: one of {known} is expected")]
pub struct UnknownWord {
    /// What was given.
    pub given: String,
    /// What it should have been.
    pub what: &'static str,
    /// The words that are known.
    pub known: String,
}
