//! Turns orphans into members: only their rows change, once no other action holds the nodes.

use std::collections::{HashMap, HashSet};

use muster_core::action::ActionStatus;
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus};
use muster_core::time::TimeSpan;
use muster_store::StoreError;
use muster_store::commands::{ActionEnd, Record};

use crate::intent::naming;
use crate::run::{ActionRun, Children, Stop, succeeded};

/// The interval between checks of a node that another action holds.
const POLL_INTERVAL: TimeSpan = TimeSpan::from_millis(200);

/// A node that joins, perhaps in place of a member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Join {
    pub(crate) node: NodeId,
    pub(crate) replaces: Option<NodeId>,
}

/// The availability of a node for joining a cluster, by its row.
enum Availability {
    /// The node can join now.
    Free(Box<Node>),
    /// Another action changes the node.
    Busy,
    /// The node cannot join any more, for this reason.
    Impossible(String),
}

/// Joins all nodes, waiting for busy ones; returns the reasons of the nodes that could not join.
pub(crate) async fn join_all(
    run: &mut ActionRun,
    joins: Vec<Join>,
    group: &str,
    intent: bool,
) -> Result<Vec<String>, Stop> {
    let is_member = |join: &Join| run.subject.node(join.node).is_some();
    let mut waiting: Vec<Join> = joins.into_iter().filter(|join| !is_member(join)).collect();
    let ids: Vec<NodeId> = waiting.iter().map(|join| join.node).collect();
    begin(run, &ids, intent).await?;
    let mut failed: Vec<String> = run.children.given_up.values().cloned().collect();
    waiting.retain(|join| !run.children.given_up.contains_key(&join.node));
    // Nodes whose lock another action has, although their status allows them to join.
    let mut locked: HashSet<NodeId> = HashSet::new();
    while !waiting.is_empty() {
        run.control.check()?;
        let rows = run.context.store.nodes_of(&nodes_of(&waiting)).await?;
        let mut rows: HashMap<NodeId, Node> = rows.into_iter().map(|node| (node.id, node)).collect();
        let (mut free, mut later) = (Vec::new(), Vec::new());
        for join in waiting {
            match availability(rows.remove(&join.node)) {
                Availability::Free(node) if !locked.contains(&join.node) => free.push((join, *node)),
                Availability::Free(_) | Availability::Busy => later.push(join),
                Availability::Impossible(why) => failed.push(give_up(&mut run.children, join.node, &why)),
            }
        }
        let retry_at_once = match commit(run, &free, group).await {
            Ok(()) => false,
            Err(StoreError::NotFree(others)) => {
                locked.extend(others);
                // One locked node refuses the commit of all: the others join without it.
                let others_remain = free.iter().any(|(join, _)| !locked.contains(&join.node));
                later.extend(free.into_iter().map(|(join, _)| join));
                others_remain
            }
            Err(error) => return Err(error.into()),
        };
        waiting = later;
        if !waiting.is_empty() && !retry_at_once {
            locked.clear();
            // Changes of nodes without a cluster are not notified.
            run.control.pause_until(run.now().after(POLL_INTERVAL)).await?;
        }
    }
    Ok(failed)
}

fn nodes_of(joins: &[Join]) -> Vec<NodeId> {
    joins.iter().map(|join| join.node).collect()
}

/// Commits the intent and a child action for each joining node, before the first step.
async fn begin(run: &mut ActionRun, ids: &[NodeId], intent: bool) -> Result<(), Stop> {
    let children = run.children.begin_all(&Change::JoinNode, ids, run.now());
    if children.is_empty() && !intent {
        return Ok(());
    }
    run.data.record_added(ids);
    run.commit_with(children, true).await
}

fn availability(row: Option<Node>) -> Availability {
    let Some(node) = row else { return Availability::Impossible("not found".to_owned()) };
    match (node.cluster_id, node.status) {
        (Some(cluster), _) => Availability::Impossible(format!("already a member of cluster {cluster}")),
        (None, NodeStatus::Active) => Availability::Free(Box::new(node)),
        (None, NodeStatus::Error | NodeStatus::Warning) => {
            Availability::Impossible(format!("not running: {}", node.status_reason))
        }
        (None, _) => Availability::Busy,
    }
}

/// Ends the child action of a node that cannot join; returns the reason for the parent.
fn give_up(children: &mut Children, node: NodeId, why: &str) -> String {
    let reason = format!("{node}: {why}");
    children.end(node, ActionEnd { status: ActionStatus::Failed, reason: why.to_owned() });
    reason
}

/// Commits all free nodes at once: they become members, and the members that they replace become orphans.
async fn commit(run: &mut ActionRun, joins: &[(Join, Node)], group: &str) -> Result<(), StoreError> {
    if joins.is_empty() {
        return Ok(());
    }
    let now = run.now();
    let mut cluster: Cluster = run.subject.cluster.clone();
    let (mut members, mut leavers, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
    for (Join { replaces, .. }, node) in joins {
        let old = replaces.and_then(|old| run.subject.node(old).cloned());
        let group = old.as_ref().and_then(|old| old.group.clone()).unwrap_or_else(|| group.to_owned());
        let index = cluster.next_index;
        cluster.next_index = index.saturating_add(1);
        members.push(Node {
            updated_at: Some(now),
            ..naming::with_place(&cluster, node.clone(), &group, index)
        });
        if let Some(old) = old {
            leaves.push(old.id);
            leavers.push(Node { updated_at: Some(now), ..old.orphaned() });
        }
    }
    let mut record = Record::new(run.control.ticket(), now);
    record.children = run.children.begin_all(&Change::LeaveNode, &leaves, now);
    let joined = joins.iter().filter_map(|(join, _)| run.children.open.get(&join.node).copied()).collect();
    let left = leaves.iter().filter_map(|id| run.children.open.get(id).copied()).collect();
    record.ended_children = vec![
        (succeeded("Node successfully joined cluster."), joined),
        (succeeded("Node successfully left cluster."), left),
    ];
    record.ended_children.retain(|(_, children)| !children.is_empty());
    record.joining = joins.iter().map(|(join, _)| join.node).collect();
    record.moved_nodes = members.iter().chain(&leavers).cloned().collect();
    record.cluster = Some(cluster.clone());
    record.applied = true;
    let written = run.context.store.record(record).await;
    for id in &leaves {
        run.children.open.remove(id);
    }
    written?;
    for (join, _) in joins {
        run.children.open.remove(&join.node);
    }
    run.subject.cluster = cluster;
    run.subject.nodes.add(members);
    run.subject.nodes.remove(&leaves.into_iter().collect());
    Ok(())
}
