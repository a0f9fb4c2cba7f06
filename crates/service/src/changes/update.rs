//! The properties of a cluster that an update may change.

use std::collections::BTreeMap;

use muster_core::cluster::WorkerGroup;
use muster_core::ids::ProfileId;
use muster_core::resize::Resize;
use muster_core::time::Span;
use serde::Serialize;
use serde_json::{Map, Value};

/// Changed properties of a cluster; absent ones stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClusterUpdate {
    /// What users call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How long its actions may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// Merged by key; null removes a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Merged by key; null removes a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
    /// All labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// All annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// What the API keeps of the request; merged by key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Map<String, Value>>,
    /// Idle time and lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitChanges>,
    /// Groups that are replaced, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<WorkerGroup>>,
    /// Another recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_id: Option<ProfileId>,
    /// Present members keep their recipe.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub profile_only: bool,
    /// Size and bounds of the first group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize: Option<Resize>,
}

impl ClusterUpdate {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Changed limits: an absent one stays as it is, `Some(None)` lifts it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LimitChanges {
    /// How long it may be unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Option<Span>>,
    /// How long it may exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lifetime: Option<Option<Span>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_changes_is_stored_and_a_lifted_limit_is_null() {
        let limits = LimitChanges { idle_timeout: Some(None), max_lifetime: None };
        let update = ClusterUpdate { name: Some("x".to_owned()), limits: Some(limits), ..Default::default() };
        let stored = serde_json::to_value(&update).unwrap();
        assert_eq!(stored, json!({"name": "x", "limits": {"idle_timeout": null}}));
        assert!(!update.is_empty() && ClusterUpdate::default().is_empty());
    }
}
