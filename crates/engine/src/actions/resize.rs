//! Changing sizes and bounds: by a resize, or by a scaling out or in.

use std::collections::HashSet;

use muster_core::action::ActionKind;
use muster_core::candidates::{self, Candidate, Criterion};
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus};
use muster_core::resize::{Adjustment, AdjustmentType, Resize, Sizes};
use muster_core::time::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::actions::deletion::{self, Deletion};
use crate::intent::scale;
use crate::run::{ActionRun, Stop, read_inputs};

/// What an action asks of the size of a group.
#[derive(Debug)]
pub(crate) struct Request {
    group: Option<String>,
    ask: Ask,
}

#[derive(Debug)]
enum Ask {
    /// As a resize says it.
    Resize(Resize),
    /// So many more.
    Out(u32),
    /// So many fewer, as far as there are any.
    In(u32),
}

#[derive(Debug, Deserialize)]
struct Inputs {
    group: Option<String>,
    #[serde(flatten)]
    resize: Resize,
}

impl Request {
    pub(crate) fn of(run: &ActionRun) -> Result<Self, Stop> {
        Self::read(run.action.kind, &run.data, &run.action.inputs).map_err(Stop::Failed)
    }

    /// Reads what was asked; a count that policies left goes before the one that was given.
    pub(crate) fn read(kind: ActionKind, data: &Map<String, Value>, inputs: &Value) -> Result<Self, String> {
        let group = inputs.get("group").and_then(Value::as_str).map(str::to_owned);
        let ask = match kind {
            ActionKind::ClusterScaleOut => Ask::Out(scale::count(data, "creation", inputs, "out")?),
            ActionKind::ClusterScaleIn => Ask::In(scale::count(data, "deletion", inputs, "in")?),
            _ => {
                let Inputs { group, resize } = read_inputs(inputs)?;
                return Ok(Self { group, ask: Ask::Resize(resize) });
            }
        };
        Ok(Self { group, ask })
    }

    /// The group that it is about.
    pub(crate) fn group<'c>(&self, cluster: &'c Cluster) -> Option<&'c WorkerGroup> {
        self.group.as_deref().map_or_else(|| cluster.groups.first(), |name| cluster.group(name))
    }

    /// As a resize of a group that has so many members.
    fn resize(&self, members: u32) -> Resize {
        let change = |number: f64| {
            let kind = AdjustmentType::ChangeInCapacity;
            let adjustment = Some(Adjustment { kind, number, min_step: None });
            Resize { adjustment, min_size: None, max_size: None, strict: true }
        };
        match self.ask {
            Ask::Resize(resize) => resize,
            Ask::Out(count) => change(f64::from(count)),
            Ask::In(count) => change(-f64::from(count.min(members))),
        }
    }

    /// Best effort may come to nothing: then there is nothing that could be outside any bound.
    fn is_nothing(&self) -> bool {
        matches!(self.ask, Ask::Out(0) | Ask::In(0))
    }
}

pub(crate) async fn run(run: &mut ActionRun) -> Result<(), Stop> {
    // Committed already by an engine before us: the row is the intent, and is not changed twice.
    let begun = run.action.applied_at.is_some();
    if !begun {
        let request = Request::of(run)?;
        let limit = run.context.config.max_nodes_per_cluster;
        let nodes = &run.nodes;
        let members = |group: &WorkerGroup| candidates::workers(nodes, Some(&group.name)).count();
        apply(&mut run.cluster, members, &request, limit).map_err(Stop::Failed)?;
        run.cluster.generation += 1;
    }
    let leaving = surplus(run);
    deletion::shrink(run, leaving, !begun).await
}

/// Computes the new sizes of one group from its present members.
pub(crate) fn apply(
    cluster: &mut Cluster,
    members: impl Fn(&WorkerGroup) -> usize,
    request: &Request,
    limit: u32,
) -> Result<(), String> {
    let others: u32 = others_of(cluster, request.group.as_deref());
    let names: Vec<String> = cluster.groups.iter().map(|group| group.name.clone()).collect();
    let group = find_group(&mut cluster.groups, request.group.as_deref())
        .ok_or_else(|| format!("there is no such group; there are: {}", names.join(", ")))?;
    if request.is_nothing() {
        return Ok(());
    }
    let size = u32::try_from(members(group)).unwrap_or(u32::MAX);
    let present = Sizes { size, min: group.min, max: group.max };
    let resized = request.resize(size).apply(present, limit.saturating_sub(others));
    let sizes = resized.map_err(|refused| refused.to_string())?;
    group.desired = sizes.size;
    group.min = sizes.min;
    group.max = sizes.max;
    Ok(())
}

/// The sizes of a group with so many more or fewer than its members, if its bounds allow that.
pub(crate) fn by(
    cluster: &mut Cluster,
    group: &str,
    members: usize,
    change: i64,
    limit: u32,
) -> Result<(), String> {
    let count = u32::try_from(change.unsigned_abs()).unwrap_or(u32::MAX);
    let ask = if change < 0 { Ask::In(count) } else { Ask::Out(count) };
    apply(cluster, |_| members, &Request { group: Some(group.to_owned()), ask }, limit)
}

fn others_of(cluster: &Cluster, group: Option<&str>) -> u32 {
    let first = cluster.groups.first().map(|first| first.name.as_str());
    let chosen = group.or(first);
    let others = cluster.groups.iter().filter(|group| Some(group.name.as_str()) != chosen);
    others.fold(0, |sum, group| sum.saturating_add(group.desired))
}

pub(crate) fn find_group<'g>(
    groups: &'g mut [WorkerGroup],
    name: Option<&str>,
) -> Option<&'g mut WorkerGroup> {
    match name {
        Some(name) => groups.iter_mut().find(|group| group.name == name),
        None => groups.first_mut(),
    }
}

/// Members beyond what their group should have: those a policy chose, else the bad ones and then any.
pub(crate) fn surplus(run: &ActionRun) -> HashSet<NodeId> {
    let chosen = Deletion::of(run).candidates;
    let mut leaving = HashSet::new();
    for group in &run.cluster.groups {
        let members: Vec<_> = candidates::workers(&run.nodes, Some(&group.name)).collect();
        let surplus = members.len().saturating_sub(usize::try_from(group.desired).unwrap_or(usize::MAX));
        leaving.extend(victims(&members, surplus, &chosen, run.profile.created_at));
    }
    leaving
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
pub(crate) fn lot(id: NodeId) -> u64 {
    let bits = id.as_uuid().as_u128();
    u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
