//! JSON patches.

use json_patch::Patch;
use serde_json::Value;

/// A patch of operations that we wrote ourselves.
pub(crate) fn read_patch(operations: Value) -> Patch {
    serde_json::from_value(operations).expect("operations with well-formed paths")
}

/// A key as a part of a JSON pointer.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
