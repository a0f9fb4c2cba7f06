//! Constructors of JSON patch operations.

use serde_json::{Value, json};

pub(super) fn test(path: &str, value: &Value) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

/// Returns an `add` operation, which replaces an existing value.
pub(super) fn add(path: &str, value: &Value) -> Value {
    json!({"op": "add", "path": path, "value": value})
}

/// Returns the operations that remove a field: they succeed also if the object lacks it, so that an action that was
/// interrupted can repeat them. `empty` has the type of the field.
pub(super) fn remove(path: &str, empty: &Value) -> [Value; 2] {
    [add(path, empty), json!({"op": "remove", "path": path})]
}

/// Returns the operations for changed entries of a map; entries that others have added stay.
pub(super) fn replaced_entries(map: &str, before: &Value, after: &Value) -> Vec<Value> {
    let entries = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let place = |key: &str| format!("{map}/{}", key.replace('~', "~0").replace('/', "~1"));
    let (before, after) = (entries(before), entries(after));
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let gone = gone.flat_map(|key| remove(&place(key), &json!("")));
    let new = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
    gone.chain(new.map(|(key, value)| add(&place(key), value))).collect()
}
