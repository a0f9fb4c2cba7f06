//! Changing sizes and bounds.

use std::collections::HashSet;

use muster_core::action::Action;
use muster_core::candidates::{self, Candidate, Criterion};
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus};
use muster_core::resize::{Resize, Sizes};
use muster_core::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::members::Aim;
use crate::work::{Stop, Work};

/// The inputs of a resize: the group, and what it asks for.
#[derive(Debug, Deserialize)]
pub(crate) struct Inputs {
    group: Option<String>,
    #[serde(flatten)]
    resize: Resize,
}

impl Inputs {
    pub(crate) fn of(action: &Action) -> Result<Self, Stop> {
        Self::read(&action.inputs).map_err(Stop::Failed)
    }

    pub(crate) fn read(inputs: &Value) -> Result<Self, String> {
        serde_json::from_value(inputs.clone()).map_err(|error| format!("the inputs cannot be read: {error}"))
    }

    /// The group that it is about.
    pub(crate) fn group<'c>(&self, cluster: &'c Cluster) -> Option<&'c WorkerGroup> {
        self.group.as_deref().map_or_else(|| cluster.groups.first(), |name| cluster.group(name))
    }
}

pub(super) async fn run(work: &mut Work) -> Result<(), Stop> {
    // Committed already by an engine before us: the row is the intent, and is not changed twice.
    let begun = work.action.applied_at.is_some();
    if !begun {
        let inputs = Inputs::of(&work.action)?;
        let limit = work.inner.config.max_nodes_per_cluster;
        let nodes = &work.nodes;
        let members = |group: &WorkerGroup| candidates::workers(nodes, Some(&group.name)).count();
        apply(&mut work.cluster, members, &inputs, limit).map_err(Stop::Failed)?;
        work.cluster.generation += 1;
    }
    let leaving = surplus(work);
    work.reach(&Aim { leaving, start: true, new_intent: !begun, ..Aim::default() }).await
}

/// Computes the new sizes of one group from its present members.
pub(crate) fn apply(
    cluster: &mut Cluster,
    members: impl Fn(&WorkerGroup) -> usize,
    inputs: &Inputs,
    limit: u32,
) -> Result<(), String> {
    let others: u32 = others_of(cluster, inputs.group.as_deref());
    let names: Vec<String> = cluster.groups.iter().map(|group| group.name.clone()).collect();
    let group = find_group(&mut cluster.groups, inputs.group.as_deref())
        .ok_or_else(|| format!("there is no such group; there are: {}", names.join(", ")))?;
    let members = members(group);
    let present = Sizes { size: u32::try_from(members).unwrap_or(u32::MAX), min: group.min, max: group.max };
    let sizes =
        inputs.resize.apply(present, limit.saturating_sub(others)).map_err(|refused| refused.to_string())?;
    group.desired = sizes.size;
    group.min = sizes.min;
    group.max = sizes.max;
    Ok(())
}

fn others_of(cluster: &Cluster, group: Option<&str>) -> u32 {
    let first = cluster.groups.first().map(|first| first.name.as_str());
    let chosen = group.or(first);
    let others = cluster.groups.iter().filter(|group| Some(group.name.as_str()) != chosen);
    others.fold(0, |sum, group| sum.saturating_add(group.desired))
}

pub(super) fn find_group<'g>(
    groups: &'g mut [WorkerGroup],
    name: Option<&str>,
) -> Option<&'g mut WorkerGroup> {
    match name {
        Some(name) => groups.iter_mut().find(|group| group.name == name),
        None => groups.first_mut(),
    }
}

/// Members beyond what their group should have: those a policy chose, else the bad ones and then any.
pub(super) fn surplus(work: &Work) -> HashSet<NodeId> {
    let chosen = chosen(work);
    let mut leaving = HashSet::new();
    for group in &work.cluster.groups {
        let members: Vec<_> = candidates::workers(&work.nodes, Some(&group.name)).collect();
        let surplus = members.len().saturating_sub(usize::try_from(group.desired).unwrap_or(usize::MAX));
        leaving.extend(victims(&members, surplus, &chosen, work.profile.created_at));
    }
    leaving
}

/// Members that a policy, or else the request itself, wants to go first.
pub(crate) fn chosen(work: &Work) -> Vec<NodeId> {
    let deletion = work.data.get("deletion").and_then(|deletion| deletion.get("candidates"));
    let chosen = deletion.or_else(|| work.action.inputs.get("candidates"));
    chosen.and_then(|chosen| serde_json::from_value(chosen.clone()).ok()).unwrap_or_default()
}

/// So many of these members: those that were going already, the chosen ones, the bad ones, any.
pub(crate) fn victims(
    members: &[&Node],
    count: usize,
    chosen: &[NodeId],
    profile_created_at: Timestamp,
) -> Vec<NodeId> {
    // A take-over goes on with those that were already going.
    let going = |node: &&Node| node.status == NodeStatus::Deleting;
    let mut victims: Vec<NodeId> = members.iter().copied().filter(going).map(|node| node.id).collect();
    victims.extend(chosen.iter().filter(|id| members.iter().any(|node| node.id == **id)));
    let rest = members.iter().map(|node| Candidate::of(node, profile_created_at)).collect();
    victims.extend(candidates::choose(rest, members.len(), Criterion::Random, lot));
    let mut unique = HashSet::new();
    victims.into_iter().filter(|id| unique.insert(*id)).take(count).collect()
}

/// A node's lot: its id's random bits, so that a take-over draws the same.
fn lot(id: NodeId) -> u64 {
    let bits = id.as_uuid().as_u128();
    u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
