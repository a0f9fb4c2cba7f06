//! Changes that tests read from the inputs of a request.

use muster_core::action::ActionKind;
use muster_core::change::Change;
use serde_json::Value;

/// The change with these inputs; panics if they are invalid for an action of that kind.
#[track_caller]
pub fn read_change(kind: ActionKind, inputs: &Value) -> Change {
    Change::read(kind, inputs).expect("inputs of that kind")
}
