//! How the machines below pods are.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::{Api, Client};

/// The machines of these that are certainly not ready, and why.
pub(super) async fn unready(client: &Client, names: BTreeSet<String>) -> BTreeMap<String, String> {
    let machines: Api<Node> = Api::all(client.clone());
    let mut unready = BTreeMap::new();
    for name in names {
        match machines.get_opt(&name).await {
            Ok(Some(machine)) => {
                let conditions = machine.status.and_then(|status| status.conditions).unwrap_or_default();
                if let Some(why) = conditions.iter().find_map(obstacle) {
                    unready.insert(name.clone(), format!("its machine '{name}' {why}"));
                }
            }
            Ok(None) => {
                unready.insert(name.clone(), format!("its machine '{name}' is gone"));
            }
            // Whoever cannot ask, or may not, does not know.
            Err(error) => tracing::debug!(%error, machine = name, "cannot tell how a machine is"),
        }
    }
    unready
}

/// A condition that pods cannot work under, in words.
fn obstacle(condition: &NodeCondition) -> Option<String> {
    let message = condition.message.clone().unwrap_or_default();
    let colon = if message.is_empty() { "" } else { ": " };
    match (condition.type_.as_str(), condition.status.as_str()) {
        ("Ready", "True") => None,
        ("Ready", _) => Some(format!("is not ready{colon}{message}")),
        ("NetworkUnavailable", "True") => Some(format!("has no network{colon}{message}")),
        _ => None,
    }
}
