//! Keeps the fields of stored objects that this version does not know.

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// Fields that a newer version wrote: flattened into the object that has them, and written back with it.
///
/// ```
/// use muster_core::unknown_fields::UnknownFields;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Stored {
///     size: u32,
///     #[serde(flatten)]
///     unknown: UnknownFields,
/// }
///
/// let row = r#"{"size":3,"colour":"red"}"#;
/// let read: Stored = serde_json::from_str(row).unwrap();
/// assert_eq!(serde_json::to_string(&read).unwrap(), row);
/// ```
///
/// Boxed: there are seldom any, and clusters, which contain them, are moved often.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnknownFields(Option<Box<Map<String, Value>>>);

impl UnknownFields {
    /// The names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|fields| fields.keys()).map(String::as_str)
    }
}

impl Serialize for UnknownFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(fields) => fields.serialize(serializer),
            None => serializer.serialize_map(Some(0))?.end(),
        }
    }
}

impl<'de> Deserialize<'de> for UnknownFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::deserialize(deserializer)?;
        Ok(Self((!fields.is_empty()).then(|| Box::new(fields))))
    }
}
