//! Data that policies and the steps of an action exchange; stored with the action as JSON.
//!
//! Clients of the clustering API read this, so the names stay. Keys of a newer version are written back unchanged.

use std::collections::HashSet;

use muster_core::action::Fence;
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::ids::{NodeId, ProfileId};
use muster_core::placement::{Axis, Counts, Placement};
use muster_core::policy::deletion::{HookType, Hooks};
use muster_core::time::{TimeSpan, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ports::provider::{Bounds, MemberId};

/// The data of an action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionData {
    /// Members that are added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation: Option<Creation>,
    /// Members that are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Deletion>,
    /// Where new members run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placements>,
    /// The hook that is called before members are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<HookWait>,
    /// How members follow a new profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Rollout>,
    /// How a node is recreated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recreation>,
    /// What was decided for a cluster whose members an operator owns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegated: Option<DelegatedDecision>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// Members that are added.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Creation {
    /// How many a policy wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The added nodes, written in the commit that adds them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeId>,
    /// How many in each region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<Counts>,
    /// How many in each zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<Counts>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// Members that are removed, and how.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deletion {
    /// How many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The members that are removed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<NodeId>>,
    /// Whether they are deleted; otherwise they leave the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroy_after_deletion: Option<bool>,
    /// Seconds before they are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<i64>,
    /// Whether the size shrinks with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduce_desired_capacity: Option<bool>,
    /// When the grace period began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_began: Option<Timestamp>,
    /// How many in each region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<Counts>,
    /// How many in each zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<Counts>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// Where new members run, in the order in which they are added.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Placements {
    /// How many.
    pub count: u32,
    /// Each one's place.
    pub placements: Vec<Placement>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// The hook that is called before members are removed, and since when it waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookWait {
    /// The receiver and the timeout.
    #[serde(flatten)]
    pub hooks: Hooks,
    /// When the hook was first called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// The messages, one for each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Value>>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// How members follow a new profile, in batches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rollout {
    /// The batches; all members at once if no policy makes any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Vec<Vec<NodeId>>>,
    /// The cluster's profile before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<ProfileId>,
    /// Seconds to wait after each batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_time: Option<i64>,
    /// The size is reached; members still have to follow the profile.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// Batches that have ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub batches_done: usize,
    /// When the next batch begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rests_until: Option<Timestamp>,
    /// The physical id of a single node before it was recreated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// Workers that are recreated because the cluster says something else of them than before.
    #[serde(skip_serializing_if = "HashSet::is_empty")]
    pub recreate: HashSet<NodeId>,
    /// What the cluster said of its nodes before, if this update changes that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipe_before: Option<RecipeBefore>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// What a cluster said of its nodes before an update: that holds again if the update fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecipeBefore {
    /// The cluster's own part.
    pub spec: Map<String, Value>,
    /// Its groups; their sizes do not count.
    pub groups: Vec<WorkerGroup>,
}

impl RecipeBefore {
    /// As a cluster is now.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self { spec: cluster.spec.clone(), groups: cluster.groups.clone() }
    }

    /// Restores this recipe in a cluster; its sizes stay.
    pub(crate) fn restore(self, cluster: &mut Cluster) {
        cluster.spec = self.spec;
        for before in self.groups {
            if let Some(group) = cluster.groups.iter_mut().find(|group| group.name == before.name) {
                (group.shape, group.spec) = (before.shape, before.spec);
            }
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A node that is recreated. The old instance is recorded so that an engine that takes over stops only that one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recreation {
    /// Its physical id before.
    pub old: Option<String>,
    /// The deadline by which the old instance has to be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The old instance could not be stopped and is ignored from now on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub written_off: bool,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// New sizes of a group; absent values stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSizes {
    /// Which group.
    pub group: String,
    /// How many workers.
    pub desired: Option<u32>,
    /// Between which bounds.
    pub bounds: Option<Bounds>,
}

/// Decisions that must be made once: repeating them after the world has changed could give another result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DelegatedDecision {
    /// Sizes that change.
    pub wanted: Vec<GroupSizes>,
    /// Groups whose members are waited for.
    pub groups: Vec<String>,
    /// More than sizes is written: shapes, images, environments.
    pub recipe: bool,
    /// The head's recipe is among that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub head: bool,
    /// Members that are removed first.
    pub victims: Vec<NodeId>,
    /// Members that have to be replaced.
    pub old: HashSet<MemberId>,
    /// Workers that are replaced one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<MemberId>,
    /// Members that existed before their recipe changed.
    pub before: HashSet<MemberId>,
    /// The fence of the first write.
    pub called: Option<Fence>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

impl ActionData {
    /// Reads the data of an action; unreadable data is kept as it is and treated as absent.
    pub(crate) fn read(stored: &Value) -> Self {
        Self::deserialize(stored).unwrap_or_else(|error| {
            tracing::warn!(%error, "the data of an action cannot be read");
            let unknown = stored.as_object().cloned().unwrap_or_default();
            Self { unknown, ..Self::default() }
        })
    }

    /// The stored form; none if there is no data.
    pub(crate) fn stored(&self) -> Option<Value> {
        // Plain text, numbers and maps with text keys: serializing them cannot fail.
        let stored = serde_json::to_value(self).unwrap_or_default();
        stored.as_object().is_some_and(|stored| !stored.is_empty()).then_some(stored)
    }

    pub(crate) fn creation(&mut self) -> &mut Creation {
        self.creation.get_or_insert_default()
    }

    /// Records which nodes were added: policies read it once the action has ended.
    pub(crate) fn record_added(&mut self, added: &[NodeId]) {
        if !added.is_empty() {
            self.creation().nodes.extend(added);
        }
    }

    /// What is decided about members that are removed.
    pub fn deletion(&mut self) -> &mut Deletion {
        self.deletion.get_or_insert_default()
    }

    pub(crate) fn update(&mut self) -> &mut Rollout {
        self.update.get_or_insert_default()
    }
}

impl Creation {
    pub(crate) fn counts_mut(&mut self, axis: Axis) -> &mut Option<Counts> {
        match axis {
            Axis::Region => &mut self.regions,
            Axis::Zone => &mut self.zones,
        }
    }
}

impl Deletion {
    pub(crate) fn counts(&self, axis: Axis) -> Option<&Counts> {
        match axis {
            Axis::Region => self.regions.as_ref(),
            Axis::Zone => self.zones.as_ref(),
        }
    }

    pub(crate) fn counts_mut(&mut self, axis: Axis) -> &mut Option<Counts> {
        match axis {
            Axis::Region => &mut self.regions,
            Axis::Zone => &mut self.zones,
        }
    }

    /// Records which members are removed.
    pub(crate) fn choose(&mut self, candidates: Vec<NodeId>) {
        self.count = Some(u32::try_from(candidates.len()).unwrap_or(u32::MAX));
        self.candidates = Some(candidates);
    }

    pub(crate) fn grace(&self) -> TimeSpan {
        seconds(self.grace_period)
    }
}

impl HookWait {
    /// The URL that messages are posted to; none where the receiver reads them from the action.
    pub(crate) fn url(&self) -> Option<&str> {
        let Hooks { kind, params, .. } = &self.hooks;
        Some(params.url.as_str()).filter(|url| *kind == HookType::Webhook && !url.is_empty())
    }

    pub(crate) fn timeout(&self) -> TimeSpan {
        seconds(Some(self.hooks.timeout))
    }
}

impl Rollout {
    pub(crate) fn pause(&self) -> TimeSpan {
        seconds(self.pause_time)
    }
}

fn seconds(seconds: Option<i64>) -> TimeSpan {
    TimeSpan::from_micros(seconds.unwrap_or(0).saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stored_data_is_read_and_written_back_with_what_is_unknown() {
        let node = "00000000-0000-0000-0000-000000000001";
        let stored = json!({
            "creation": {"count": 2, "nodes": [node], "zones": {"az1": 2}},
            "deletion": {"count": 1, "candidates": [node], "destroy_after_deletion": false, "grace_period": 5,
                "reduce_desired_capacity": true, "grace_began": 7, "regions": {"r1": 1}, "of_a_newer_version": 1},
            "placement": {"count": 1, "placements": [{"zone": "az1"}]},
            "hooks": {"type": "webhook", "params": {"queue": "", "url": "http://127.0.0.1/"}, "timeout": 3,
                "began": 9, "messages": [{"lifecycle_action_token": "x"}]},
            "update": {"plan": [[node]], "before": node, "pause_time": 1, "begun": true, "batches_done": 1,
                "rests_until": 11},
            "recovery": {"old": "17", "until": 12, "written_off": true},
            "delegated": {"wanted": [{"group": "default", "desired": 3, "bounds": {"min": 0, "max": null}}],
                "groups": ["default"], "recipe": false, "victims": [], "old": [{"identity": "a", "uid": "b"}],
                "before": [], "called": 4},
            "of_a_newer_version": {"a": [1]},
        });
        let data = ActionData::read(&stored);
        assert_eq!(data.stored(), Some(stored));
        assert_eq!(data.deletion.as_ref().map(Deletion::grace), Some(TimeSpan::from_secs(5)));
    }

    #[test]
    fn data_that_cannot_be_read_is_kept() {
        let stored = json!({"deletion": {"count": "many"}});
        assert_eq!(ActionData::read(&stored).stored(), Some(stored));
        assert_eq!(ActionData::read(&json!({})).stored(), None);
    }
}
