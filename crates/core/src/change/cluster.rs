//! Changes of clusters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{NodeId, PolicyId};
use crate::resize::Resize;

/// A resize of one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResizeGroup {
    /// Which one; none is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The size.
    #[serde(flatten)]
    pub resize: Resize,
    /// Members that are removed first if it shrinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<NodeId>>,
}

/// A scale-out or scale-in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Scale {
    /// By how many; none is what a policy says, else one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Which group; none is the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Members that are removed first, where it shrinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<NodeId>>,
}

impl Scale {
    /// Webhooks send counts as text too.
    pub(super) fn read(inputs: &Value, direction: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Stored {
            count: Option<Value>,
            group: Option<String>,
            candidates: Option<Vec<NodeId>>,
        }
        let Stored { count, group, candidates } = super::read(inputs)?;
        let count = count.filter(|count| !count.is_null());
        let count = count.map(|count| positive(&count).ok_or_else(|| invalid_count(&count, direction)));
        Ok(Self { count: count.transpose()?, group, candidates })
    }
}

fn positive(count: &Value) -> Option<u32> {
    let count: u32 = match count {
        Value::String(text) => text.trim().parse().ok()?,
        count => u32::try_from(count.as_u64()?).ok()?,
    };
    Some(count).filter(|count| *count > 0)
}

fn invalid_count(count: &Value, direction: &str) -> String {
    let given = count.as_str().map_or_else(|| count.to_string(), str::to_owned);
    format!("Invalid count ({given}) for scaling {direction}.")
}

/// Nodes that become members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddNodes {
    /// Which ones.
    pub nodes: Vec<NodeId>,
    /// Of which group; none is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Members that are removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveNodes {
    /// The nodes; those that are no members are skipped.
    pub nodes: Vec<NodeId>,
    /// Whether they are deleted; otherwise they leave the cluster. A policy decides first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destroy_after_deletion: Option<bool>,
}

/// Members that are replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaceNodes {
    /// From a member to its replacement.
    pub nodes: BTreeMap<NodeId, NodeId>,
}

/// A check of nodes, with parameters that are stored and shown as a client sent them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Check(pub Map<String, Value>);

impl Check {
    /// Whether earlier checks that have ended are removed from the history first. Clients send this flag as text too.
    pub fn deletes_earlier_checks(&self) -> bool {
        self.0.get("delete_check_action").is_some_and(|flag| {
            flag.as_bool() == Some(true)
                || flag.as_str().is_some_and(|text| text.eq_ignore_ascii_case("true"))
        })
    }
}

/// A policy that is bound, unbound or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// Which one.
    pub policy_id: PolicyId,
    /// Whether it acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}
