//! Changes of membership: adding existing nodes, removing members, replacing one by another.

pub(crate) mod join;

use std::collections::{HashMap, HashSet};

use muster_core::change::{AddNodes, RemoveNodes, ReplaceNodes};
use muster_core::ids::NodeId;
use muster_core::membership::{HEAD_STAYS, RequestedNode, cannot_add, cannot_leave, cannot_replace};
use muster_core::node::{Node, NodeRole};
use muster_core::profile::ProfileType;
use muster_store::Store;

use crate::actions::member_removal::{self, Leaving};
use crate::actions::membership::join::Join;
use crate::intent::subtract;
use crate::run::{ActionRun, Stop};

/// Adds orphans to the cluster as members.
pub(crate) async fn add(run: &mut ActionRun, AddNodes { nodes: wanted, .. }: AddNodes) -> Result<(), Stop> {
    let begun = run.action.applied_at.is_some();
    let group = run.subject.changed_group(&run.change)?;
    if !begun {
        let found = RequestedNodes::read(&run.context.store, &wanted).await?;
        fail_if(cannot_add(&run.subject.cluster, &found.of(&wanted)))?;
        run.subject.change_sizes(&run.change, &run.data)?;
    }
    let joins = wanted.into_iter().map(|node| Join { node, replaces: None }).collect();
    let failed = join::join_all(run, joins, &group, !begun).await?;
    if failed.is_empty() {
        return Ok(());
    }
    subtract(&mut run.subject.cluster, &group, failed.len());
    Err(Stop::Failed(crate::run::summarize(&failed)))
}

/// Removes members: they become orphans or are deleted. Nodes that are not members are skipped.
pub(crate) async fn remove(run: &mut ActionRun, remove: RemoveNodes) -> Result<(), Stop> {
    let RemoveNodes { nodes: wanted, destroy_after_deletion: asked } = remove;
    let begun = run.action.applied_at.is_some();
    let chosen: Vec<Node> =
        run.subject.nodes.iter().filter(|node| wanted.contains(&node.id)).cloned().collect();
    if chosen.iter().any(|node| node.role == NodeRole::Head) {
        return Err(Stop::Failed(HEAD_STAYS.to_owned()));
    }
    let destroy = member_removal::destroys(&run.data).or(asked).unwrap_or(false);
    if !destroy && !run.subject.capabilities.orphans {
        return Err(Stop::Failed(cannot_leave(&run.subject.cluster.profile_type)));
    }
    if !begun {
        run.subject.change_sizes(&run.change, &run.data)?;
    }
    let nodes = chosen.iter().map(|node| node.id).collect();
    member_removal::remove(run, Leaving { nodes, destroy, start: false, intent: !begun }).await
}

/// Replaces members by orphans; a member whose replacement cannot join stays.
pub(crate) async fn replace(
    run: &mut ActionRun,
    ReplaceNodes { nodes: pairs }: ReplaceNodes,
) -> Result<(), Stop> {
    let begun = run.action.applied_at.is_some();
    let (old, new): (Vec<NodeId>, Vec<NodeId>) = pairs.iter().map(|(old, new)| (*old, *new)).unzip();
    if !begun {
        let heads = |node: &Node| node.role == NodeRole::Head && pairs.contains_key(&node.id);
        if run.subject.nodes.iter().any(heads) {
            return Err(Stop::Failed("the head cannot be replaced: recover it instead".to_owned()));
        }
        let all: Vec<NodeId> = old.iter().chain(&new).copied().collect();
        let found = RequestedNodes::read(&run.context.store, &all).await?;
        fail_if(cannot_replace(&run.subject.cluster, &found.of(&old), &found.of(&new)))?;
    }
    let joins = pairs.into_iter().map(|(old, node)| Join { node, replaces: Some(old) }).collect();
    let group = run.subject.changed_group(&run.change)?;
    let failed = join::join_all(run, joins, &group, !begun).await?;
    if failed.is_empty() { Ok(()) } else { Err(Stop::Failed(crate::run::summarize(&failed))) }
}

fn fail_if(why: Option<String>) -> Result<(), Stop> {
    why.map_or(Ok(()), |why| Err(Stop::Failed(why)))
}

/// The current rows of requested nodes, with the types of their profiles.
struct RequestedNodes(HashMap<NodeId, (String, Option<(Node, ProfileType)>)>);

impl RequestedNodes {
    async fn read(store: &Store, ids: &[NodeId]) -> Result<Self, Stop> {
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

    fn of(&self, ids: &[NodeId]) -> Vec<RequestedNode<'_>> {
        let found = |id: &NodeId| {
            let (given, row) = self.0.get(id)?;
            Some(RequestedNode { given, node: row.as_ref().map(|(node, kind)| (node, kind)) })
        };
        ids.iter().filter_map(found).collect()
    }
}
