//! The conditions of the machines that pods run on.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::{Api, Client};

/// The machines among these that are certainly not ready, with the reasons.
pub(super) async fn find_unready(client: &Client, names: BTreeSet<String>) -> BTreeMap<String, String> {
    let machines: Api<Node> = Api::all(client.clone());
    let mut unready = BTreeMap::new();
    for name in names {
        match machines.get_opt(&name).await {
            Ok(Some(machine)) => {
                let conditions = machine.status.and_then(|status| status.conditions).unwrap_or_default();
                if let Some(why) = conditions.iter().find_map(unready_reason) {
                    unready.insert(name.clone(), format!("its machine '{name}' {why}"));
                }
            }
            Ok(None) => {
                unready.insert(name.clone(), format!("its machine '{name}' is gone"));
            }
            // Without an answer, or the right to read machines, the state is unknown.
            Err(error) => tracing::debug!(%error, machine = name, "cannot read the conditions of a machine"),
        }
    }
    unready
}

/// The reason why pods cannot run on a machine with this condition.
fn unready_reason(condition: &NodeCondition) -> Option<String> {
    let message = condition.message.clone().unwrap_or_default();
    let colon = if message.is_empty() { "" } else { ": " };
    match (condition.type_.as_str(), condition.status.as_str()) {
        ("Ready", "True") => None,
        ("Ready", _) => Some(format!("is not ready{colon}{message}")),
        ("NetworkUnavailable", "True") => Some(format!("has no network{colon}{message}")),
        _ => None,
    }
}
