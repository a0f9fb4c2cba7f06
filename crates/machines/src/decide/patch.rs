//! Helpers for JSON patches.

use json_patch::Patch;
use serde_json::Value;

/// Parses a patch. Panics if the operations are malformed, which those of this crate are not.
pub(crate) fn read_patch(operations: Value) -> Patch {
    serde_json::from_value(operations).expect("operations with well-formed paths")
}

/// Escapes a key for a JSON pointer.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
