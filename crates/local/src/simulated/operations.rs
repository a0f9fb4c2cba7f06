//! What can be done to simulated nodes: everything at once, and nothing changes by it.

use muster_core::node::{Node, NodeStatus};
use muster_core::profile::ProfileType;
use muster_core::spec::{Property, Schema};
use muster_engine::ports::provider::{Operation, ProviderError};
use serde_json::{Map, Value, json};

/// What recoveries do, and nobody asks for by this name.
const REBUILD: &str = "rebuild";

/// What can be asked for.
pub(super) const ALL: &[Operation] = &[
    Operation {
        name: "reboot",
        description: "Turns the node off and on again.",
        parameters: Schema(&[(
            "type",
            Property::string("Type of reboot which can be 'SOFT' or 'HARD'.")
                .allowed(&["SOFT", "HARD"])
                .default_text("SOFT"),
        )]),
    },
    Operation { name: "pause", description: "Stops the node where it is.", parameters: Schema(&[]) },
    Operation { name: "unpause", description: "Lets a paused node go on.", parameters: Schema(&[]) },
    Operation {
        name: "change_password",
        description: "Gives the node another password.",
        parameters: Schema(&[("admin_pass", Property::string("New password for the administrator."))]),
    },
];

pub(super) fn run(kind: &ProfileType, operation: &str) -> Result<(), ProviderError> {
    if operation == REBUILD || ALL.iter().any(|known| known.name == operation) {
        return Ok(());
    }
    let message =
        format!("The requested operation '{operation}' is not supported by the profile type '{kind}'.");
    Err(ProviderError::permanent("NotSupported", message))
}

/// What is read from something that others made.
pub(super) fn adopted() -> Map<String, Value> {
    Map::from_iter([("flavor".to_owned(), "adopted".into())])
}

/// What a node is there.
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
    fn what_is_offered_can_be_done_and_nothing_else() {
        let kind = sample::profile().kind;
        for operation in ALL {
            assert_eq!(run(&kind, operation.name), Ok(()));
        }
        let refused = run(&kind, "dance").unwrap_err();
        let words =
            "The requested operation 'dance' is not supported by the profile type 'simulated.node-1.0'.";
        assert_eq!((refused.message.as_str(), refused.transient), (words, false));
    }

    #[test]
    fn a_node_that_is_up_says_so() {
        let node = Node { status: NodeStatus::Active, physical_id: Some("x".to_owned()), ..sample::node(1) };
        let expected = json!({"id": "x", "name": "node-1", "status": "ACTIVE"});
        assert_eq!(Value::Object(details(&node)), expected);
    }
}
