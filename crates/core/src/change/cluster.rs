//! Changes of clusters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{NodeId, PolicyId};
use crate::resize::Resize;

/// A resize of one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResizeGroup {
    /// The name of the group; none stands for the first group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The size.
    #[serde(flatten)]
    pub resize: Resize,
    /// The members that are removed first if the group shrinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<NodeId>>,
}

/// A scale-out or scale-in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Scale {
    /// The number of nodes; if none, a scaling policy decides, and otherwise one node is added or removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The name of the group; none stands for the first group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The members that are removed first if the group shrinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<NodeId>>,
}

impl Scale {
    /// Reads stored inputs. A count may be a text, because webhooks send it so.
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
    /// The nodes that become members.
    pub nodes: Vec<NodeId>,
    /// The group that the nodes join; none stands for the first group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Members that are removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveNodes {
    /// The nodes that are removed; those that are not members are skipped.
    pub nodes: Vec<NodeId>,
    /// True if the nodes are deleted, false if they become orphans. A deletion policy that says so overrides this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destroy_after_deletion: Option<bool>,
}

/// Members that are replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaceNodes {
    /// The replacement of each member, by the member's id.
    pub nodes: BTreeMap<NodeId, NodeId>,
}

/// A check of nodes, with its parameters as the client sent them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Check(pub Map<String, Value>);

impl Check {
    /// Returns true if earlier checks that have ended are removed from the history first. Clients send this flag as
    /// text, too.
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
    /// The policy.
    pub policy_id: PolicyId,
    /// True if the policy is enabled. If absent, a new binding is enabled, and an existing one stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}
