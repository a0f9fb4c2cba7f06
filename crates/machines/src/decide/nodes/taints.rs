//! The taints that groups put on nodes.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};

use super::{OwnedKeys, is_type_key};
use crate::decide::node_health::taints;
use crate::keys;

const EFFECT: &str = "NoSchedule";

/// Returns true if these groups put the taint on nodes.
fn is_ours(taint: &Taint, owned: OwnedKeys) -> bool {
    let of_group = taint.value.as_deref().is_some_and(|value| owned.groups.contains(value));
    let shared = owned.shared && taint.key == keys::NODE_POOL;
    taint.effect == EFFECT && (shared || (is_type_key(&taint.key) && of_group))
}

/// Returns true if a node has a taint that names a group.
pub(super) fn carries(node: &Node, group: &str) -> bool {
    let groups = BTreeSet::from([group]);
    taints(node).iter().any(|taint| is_ours(taint, OwnedKeys { groups: &groups, shared: false }))
}

/// The operations that give a node the wanted taints and leave those of others as they are; empty if nothing changes.
pub(super) fn operations(node: &Node, owned: OwnedKeys, wanted: &[(String, String)]) -> Vec<Value> {
    let before = taints(node);
    let is_wanted = |taint: &Taint| {
        wanted.iter().any(|(key, value)| taint.key == *key && taint.value.as_deref() == Some(value.as_str()))
    };
    let stays = |taint: &&Taint| !is_ours(taint, owned) || is_wanted(taint);
    let mut after: Vec<Taint> = before.iter().filter(stays).cloned().collect();
    for (key, value) in wanted {
        let there = after.iter().any(|taint| taint.key == *key && taint.effect == EFFECT);
        if !there {
            after.push(Taint {
                key: key.clone(),
                value: Some(value.clone()),
                effect: EFFECT.to_owned(),
                time_added: None,
            });
        }
    }
    if after == before {
        return Vec::new();
    }
    // To an API server a missing list equals null.
    let tested = if before.is_empty() { Value::Null } else { json!(before) };
    vec![
        json!({"op": "test", "path": "/spec/taints", "value": tested}),
        json!({"op": "add", "path": "/spec/taints", "value": after}),
    ]
}
