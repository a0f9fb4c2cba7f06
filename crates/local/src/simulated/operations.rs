//! Operations on simulated nodes. They succeed at once and have no effect.

use muster_core::node::{Node, NodeStatus};
use muster_core::profile::ProfileType;
use muster_core::spec::{Property, Schema};
use muster_engine::ports::provider::{Operation, ProviderError};
use serde_json::{Map, Value, json};

/// The operation of recoveries; it is not offered to callers.
const REBUILD: &str = "rebuild";

/// The offered operations.
pub(super) const ALL: &[Operation] = &[
    Operation {
        name: "reboot",
        description: "Reboots the node.",
        parameters: Schema(&[(
            "type",
            Property::string("Type of reboot which can be 'SOFT' or 'HARD'.")
                .allowed(&["SOFT", "HARD"])
                .default_text("SOFT"),
        )]),
    },
    Operation { name: "pause", description: "Pauses the node.", parameters: Schema(&[]) },
    Operation { name: "unpause", description: "Resumes a paused node.", parameters: Schema(&[]) },
    Operation {
        name: "change_password",
        description: "Changes the password of the node.",
        parameters: Schema(&[("admin_pass", Property::string("New password for the administrator."))]),
    },
];

pub(super) fn perform(kind: &ProfileType, operation: &str) -> Result<(), ProviderError> {
    if operation == REBUILD || ALL.iter().any(|known| known.name == operation) {
        return Ok(());
    }
    let message =
        format!("The requested operation '{operation}' is not supported by the profile type '{kind}'.");
    Err(ProviderError::permanent("NotSupported", message))
}

/// Returns the properties of an adopted node.
pub(super) fn adopted() -> Map<String, Value> {
    Map::from_iter([("flavor".to_owned(), "adopted".into())])
}

/// Returns the details of a node.
pub(super) fn details(node: &Node) -> Map<String, Value> {
    let up = matches!(node.status, NodeStatus::Active | NodeStatus::Warning | NodeStatus::Operating);
    let status = if up { "ACTIVE".to_owned() } else { node.status.to_string() };
    Map::from_iter([
        ("id".to_owned(), json!(node.physical_id)),
        ("name".to_owned(), json!(node.name)),
        ("status".to_owned(), json!(status)),
    ])
}

#[cfg(test)]
mod tests {
    use muster_core::sample;

    use super::*;

    #[test]
    fn only_offered_operations_succeed() {
        let kind = sample::profile().kind;
        for operation in ALL {
            assert_eq!(perform(&kind, operation.name), Ok(()));
        }
        let refused = perform(&kind, "dance").unwrap_err();
        let message =
            "The requested operation 'dance' is not supported by the profile type 'simulated.node-1.0'.";
        assert_eq!((refused.message.as_str(), refused.transient), (message, false));
    }

    #[test]
    fn a_running_node_is_active() {
        let node = Node { status: NodeStatus::Active, physical_id: Some("x".to_owned()), ..sample::node(1) };
        let expected = json!({"id": "x", "name": "node-1", "status": "ACTIVE"});
        assert_eq!(Value::Object(details(&node)), expected);
    }
}
