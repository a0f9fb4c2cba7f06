//! Who is in a cluster: adding nodes that are there already, removing members, exchanging one for another.

mod join;

use std::collections::{BTreeMap, HashMap, HashSet};

use muster_core::ids::NodeId;
use muster_core::membership::{Found, HEAD_STAYS, cannot_add, cannot_leave, cannot_replace};
use muster_core::node::{Node, NodeRole};
use muster_core::profile::ProfileType;
use serde::Deserialize;

use super::deletion::{self, Deletion, Leaving};
use super::resize;
use crate::work::{Stop, Work};
use join::Join;

/// The nodes that an action is about.
#[derive(Debug, Deserialize)]
struct Inputs<T> {
    nodes: T,
    destroy_after_deletion: Option<bool>,
}

/// Orphans become members.
pub(super) async fn add(work: &mut Work) -> Result<(), Stop> {
    let Inputs { nodes: wanted, .. } = work.inputs::<Inputs<Vec<NodeId>>>()?;
    let begun = work.action.applied_at.is_some();
    let group = work.asked_group()?;
    if !begun {
        let kind = work.cluster.profile_type.clone();
        let found = Rows::read(work, &wanted).await?;
        refuse(cannot_add(&kind, &found.of(&wanted)))?;
        let (members, limit) = (work.members_of(&group), work.inner.config.max_nodes_per_cluster);
        let more = i64::try_from(wanted.len()).unwrap_or(i64::MAX);
        resize::by(&mut work.cluster, &group, members, more, limit).map_err(Stop::Failed)?;
        work.cluster.generation += 1;
    }
    let joins = wanted.into_iter().map(|node| Join { node, instead_of: None }).collect();
    let failed = join::all(work, joins, &group, !begun).await?;
    if failed.is_empty() {
        return Ok(());
    }
    if let Some(group) = resize::find_group(&mut work.cluster.groups, Some(&group)) {
        // Who did not come is not waited for.
        group.desired = group.desired.saturating_sub(u32::try_from(failed.len()).unwrap_or(u32::MAX));
    }
    Err(Stop::Failed(crate::members::in_one(&failed)))
}

/// Members become orphans, or end. Whoever is no member is passed over.
pub(super) async fn remove(work: &mut Work) -> Result<(), Stop> {
    let Inputs { nodes: wanted, destroy_after_deletion: asked } = work.inputs::<Inputs<HashSet<NodeId>>>()?;
    let begun = work.action.applied_at.is_some();
    let chosen: Vec<Node> = work.nodes.iter().filter(|node| wanted.contains(&node.id)).cloned().collect();
    if chosen.iter().any(|node| node.role == NodeRole::Head) {
        return Err(Stop::Failed(HEAD_STAYS.to_owned()));
    }
    let deletion = Deletion::of(work);
    let destroy = deletion.destroy.or(asked).unwrap_or(false);
    if !destroy && !work.capabilities.orphans {
        return Err(Stop::Failed(cannot_leave(&work.cluster.profile_type)));
    }
    if !begun {
        shrink(work, &chosen, deletion.reduces)?;
    }
    let nodes = chosen.iter().map(|node| node.id).collect();
    deletion::go(work, Leaving { nodes, destroy, start: false, intent: !begun }).await
}

/// The sizes without these; refused if a bound is in the way.
fn shrink(work: &mut Work, chosen: &[Node], reduces: bool) -> Result<(), Stop> {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for group in chosen.iter().filter_map(|node| node.group.as_deref()) {
        *counts.entry(group).or_default() += 1;
    }
    let limit = work.inner.config.max_nodes_per_cluster;
    let mut smaller = work.cluster.clone();
    for (group, count) in counts {
        let members = work.members_of(group);
        resize::by(&mut smaller, group, members, -count, limit).map_err(Stop::Failed)?;
    }
    if reduces {
        work.cluster = smaller;
    }
    work.cluster.generation += 1;
    Ok(())
}

/// Members are exchanged for orphans; whose replacement does not come, stays.
pub(super) async fn replace(work: &mut Work) -> Result<(), Stop> {
    let Inputs { nodes: pairs, .. } = work.inputs::<Inputs<HashMap<NodeId, NodeId>>>()?;
    let begun = work.action.applied_at.is_some();
    let (old, new): (Vec<NodeId>, Vec<NodeId>) = pairs.iter().map(|(old, new)| (*old, *new)).unzip();
    if !begun {
        let heads = |node: &Node| node.role == NodeRole::Head && pairs.contains_key(&node.id);
        if work.nodes.iter().any(heads) {
            return Err(Stop::Failed("the head cannot be replaced: recover it instead".to_owned()));
        }
        let all: Vec<NodeId> = old.iter().chain(&new).copied().collect();
        let found = Rows::read(work, &all).await?;
        let about = (work.cluster.id, work.cluster.name.as_str(), &work.cluster.profile_type);
        refuse(cannot_replace(about, &found.of(&old), &found.of(&new)))?;
    }
    let joins = pairs.into_iter().map(|(old, node)| Join { node, instead_of: Some(old) }).collect();
    let group = work.asked_group()?;
    let failed = join::all(work, joins, &group, !begun).await?;
    if failed.is_empty() { Ok(()) } else { Err(Stop::Failed(crate::members::in_one(&failed))) }
}

fn refuse(why: Option<String>) -> Result<(), Stop> {
    why.map_or(Ok(()), |why| Err(Stop::Failed(why)))
}

/// Nodes as they are now, with the types of their recipes.
struct Rows(HashMap<NodeId, (String, Option<(Node, ProfileType)>)>);

impl Rows {
    async fn read(work: &Work, ids: &[NodeId]) -> Result<Self, Stop> {
        let store = &work.inner.store;
        let nodes = store.nodes_of(ids).await?;
        let profiles: Vec<_> =
            nodes.iter().map(|node| node.profile_id).collect::<HashSet<_>>().into_iter().collect();
        let kinds: HashMap<_, _> = store
            .profiles_of(&profiles)
            .await?
            .into_iter()
            .map(|profile| (profile.id, profile.kind))
            .collect();
        let mut rows: HashMap<NodeId, (String, Option<(Node, ProfileType)>)> =
            ids.iter().map(|id| (*id, (id.to_string(), None))).collect();
        for node in nodes {
            let kind = kinds.get(&node.profile_id).cloned();
            if let (Some(row), Some(kind)) = (rows.get_mut(&node.id), kind) {
                row.1 = Some((node, kind));
            }
        }
        Ok(Self(rows))
    }

    fn of(&self, ids: &[NodeId]) -> Vec<Found<'_>> {
        let found = |id: &NodeId| {
            let (given, row) = self.0.get(id)?;
            Some(Found { given, node: row.as_ref().map(|(node, kind)| (node, kind)) })
        };
        ids.iter().filter_map(found).collect()
    }
}
