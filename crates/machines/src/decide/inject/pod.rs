//! Access to parts of a pod in JSON, which are created where they are missing.

use serde_json::{Map, Value};

use super::{InjectRefusal, malformed};

/// The object under a key; created if it is missing or null.
pub(super) fn object<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
) -> Result<&'a mut Map<String, Value>, InjectRefusal> {
    let child = parent.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if child.is_null() {
        *child = Value::Object(Map::new());
    }
    child.as_object_mut().ok_or_else(|| malformed(format!("{key} is not an object")))
}

/// The list under a key; created if it is missing or null.
pub(super) fn list<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
) -> Result<&'a mut Vec<Value>, InjectRefusal> {
    let child = parent.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    if child.is_null() {
        *child = Value::Array(Vec::new());
    }
    child.as_array_mut().ok_or_else(|| malformed(format!("{key} is not a list")))
}

/// The text under a key; an empty text counts as missing, as everywhere in Kubernetes.
pub(super) fn text<'a>(parent: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    parent.get(key)?.as_str().filter(|text| !text.is_empty())
}
