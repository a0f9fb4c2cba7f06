//! Data that policies and the steps of an action exchange; stored with the action as JSON.
//!
//! Clients of the clustering API read these fields, so their names must not change. Keys of a newer version
//! are written back unchanged.

use std::collections::HashSet;

use muster_core::action::{Action, Fence};
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::ids::{NodeId, ProfileId};
use muster_core::placement::{Axis, Placement, PlacementCounts};
use muster_core::policy::deletion::{HookType, Hooks};
use muster_core::time::{TimeSpan, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ports::provider::{Bounds, MemberId};

/// The decisions of policies and the progress of steps, from which a take-over continues.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionData {
    /// The members that the action adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation: Option<Creation>,
    /// The members that the action removes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Deletion>,
    /// The placements of new members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placements>,
    /// The hook that is called before members are removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<HookWait>,
    /// The progress of moving members to a new profile or recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Rollout>,
    /// The progress of recreating a single node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recreation>,
    /// The decision for a cluster with delegated membership.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegated: Option<DelegatedDecision>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// The members that an action adds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Creation {
    /// The number of members that a policy wants to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The added nodes, written in the commit that adds them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeId>,
    /// The number of added members by region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<PlacementCounts>,
    /// The number of added members by zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<PlacementCounts>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// The members that an action removes, and the conditions of their removal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deletion {
    /// The number of members to remove.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The members that are removed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Vec<NodeId>>,
    /// True if removed members are deleted; otherwise they leave the cluster as orphans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroy_after_deletion: Option<bool>,
    /// The grace period before the removal, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period: Option<i64>,
    /// True if the cluster's size shrinks with the removed members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduce_desired_capacity: Option<bool>,
    /// The time when the grace period began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_began: Option<Timestamp>,
    /// The number of removed members by region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<PlacementCounts>,
    /// The number of removed members by zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<PlacementCounts>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// The placements of new members, in the order in which the members are added.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Placements {
    /// The number of placements.
    pub count: u32,
    /// One placement for each new member.
    pub placements: Vec<Placement>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// The hook that is called before members are removed, and the state of the wait for confirmations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookWait {
    /// The receiver and the timeout.
    #[serde(flatten)]
    pub hooks: Hooks,
    /// The time from which the timeout counts; recorded before the hook is called for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Timestamp>,
    /// The messages, one for each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Value>>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// The progress of moving members to a new profile or recipe, in batches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rollout {
    /// The batches; the roll-out decides them itself if no batch policy has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Vec<Vec<NodeId>>>,
    /// The cluster's previous profile, if the update changes the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<ProfileId>,
    /// Seconds to wait after each batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_time: Option<i64>,
    /// True once the first batch has begun: the size was reached before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub begun: bool,
    /// The number of batches that have ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub batches_done: usize,
    /// The time before which the next batch must not begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rests_until: Option<Timestamp>,
    /// The physical id of a single node before it was recreated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// Workers that are recreated because the update changes their recipe.
    #[serde(skip_serializing_if = "HashSet::is_empty")]
    pub recreate: HashSet<NodeId>,
    /// Nodes that the update leaves with an older recipe, and that had the cluster's recipe before it.
    #[serde(skip_serializing_if = "HashSet::is_empty")]
    pub outdated: HashSet<NodeId>,
    /// The cluster's recipe before the update, if nodes follow a new recipe or profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipe_before: Option<RecipeBefore>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// The recipe of a cluster before an update; it is restored if the update fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecipeBefore {
    /// The part that the cluster's own specification holds.
    pub spec: Map<String, Value>,
    /// The worker groups; their sizes are not restored.
    pub groups: Vec<WorkerGroup>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

impl RecipeBefore {
    /// Copies the present recipe of a cluster.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self { spec: cluster.spec.clone(), groups: cluster.groups.clone(), unknown: Map::new() }
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
    /// The physical id of the old instance, if one ran.
    pub old: Option<String>,
    /// The deadline by which the old instance has to be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// True if the old instance could not be stopped and is ignored from now on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub written_off: bool,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// New sizes of a group; absent values stay unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSizes {
    /// The name of the group.
    pub group: String,
    /// The new number of workers.
    pub desired: Option<u32>,
    /// The new bounds.
    pub bounds: Option<Bounds>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// The decision of an action on a delegated cluster. It is stored, because repeating it after the cluster has changed
/// could give another result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DelegatedDecision {
    /// The sizes to write.
    pub wanted: Vec<GroupSizes>,
    /// The groups whose members the action waits for.
    pub groups: Vec<String>,
    /// True if more than sizes is written: shapes, images, environments.
    pub recipe: bool,
    /// True if the head's recipe changes too.
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
    /// True if the last write was refused because another program had changed the object.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

/// The outcome of the write of an action on a cluster with delegated membership that was not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Nothing was sent.
    NotSent,
    /// The last write was refused because another program had changed the object.
    Refused,
    /// A write was sent, and its outcome is not known: it may still arrive.
    Unknown,
}

impl WriteOutcome {
    /// Returns the outcome of the write of an action.
    pub fn of(action: &Action) -> Self {
        match ActionData::read(&action.data).delegated {
            Some(DelegatedDecision { refused: true, .. }) => Self::Refused,
            Some(DelegatedDecision { called: Some(_), .. }) => Self::Unknown,
            _ => Self::NotSent,
        }
    }
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

    /// Returns the stored form; none if there is no data.
    pub(crate) fn stored(&self) -> Option<Value> {
        // Plain text, numbers and maps with text keys: serializing them cannot fail.
        let stored = serde_json::to_value(self).unwrap_or_default();
        stored.as_object().is_some_and(|stored| !stored.is_empty()).then_some(stored)
    }

    pub(crate) fn creation(&mut self) -> &mut Creation {
        self.creation.get_or_insert_default()
    }

    /// Records which nodes were added; policies read the list once the action has ended.
    pub(crate) fn record_added(&mut self, added: &[NodeId]) {
        if !added.is_empty() {
            self.creation().nodes.extend(added);
        }
    }

    /// Returns the decisions about removed members, empty ones if there are none yet.
    pub fn deletion(&mut self) -> &mut Deletion {
        self.deletion.get_or_insert_default()
    }

    pub(crate) fn update(&mut self) -> &mut Rollout {
        self.update.get_or_insert_default()
    }
}

impl Creation {
    pub(crate) fn counts_mut(&mut self, axis: Axis) -> &mut Option<PlacementCounts> {
        match axis {
            Axis::Region => &mut self.regions,
            Axis::Zone => &mut self.zones,
        }
    }
}

impl Deletion {
    pub(crate) fn counts(&self, axis: Axis) -> Option<&PlacementCounts> {
        match axis {
            Axis::Region => self.regions.as_ref(),
            Axis::Zone => self.zones.as_ref(),
        }
    }

    pub(crate) fn counts_mut(&mut self, axis: Axis) -> &mut Option<PlacementCounts> {
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
    /// Returns the URL that messages are posted to; none if the receiver reads the messages from the action.
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
    use muster_core::sample;
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
                "rests_until": 11,
                "recipe_before": {"spec": {"cluster": {}}, "groups": sample::cluster(1, 0, None).groups, "of_a_newer_version": 2}},
            "recovery": {"old": "17", "until": 12, "written_off": true},
            "delegated": {"wanted": [{"group": "default", "desired": 3, "bounds": {"min": 0, "max": null},
                "of_a_newer_version": 3}],
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
