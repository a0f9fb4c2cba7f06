//! Stored objects may have fields that this version does not know.

use serde::{Deserialize, Serialize};
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
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnknownFields(Map<String, Value>);
