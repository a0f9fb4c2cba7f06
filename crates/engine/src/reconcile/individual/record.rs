//! Applies a plan to the rows in memory, and commits them before the step.

use std::collections::HashSet;

use muster_core::action::{Action, ActionKind};
use muster_core::change::{Change, Delete, NewMember, Recovery};
use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole, NodeStatus};
use muster_core::time::Timestamp;

use crate::action_data::ActionData;
use crate::intent::{naming, placements};
use crate::reconcile::individual::plan::Plan;
use crate::reconcile::individual::results::record_started;
use crate::reconcile::individual::{Goal, MemberStep};
use crate::reconcile::reasons::{BEING_REMOVED, BEING_REPLACED};
use crate::run::{ActionRun, Children, Members, RunSubject, Stop, succeeded};

/// Adds the missing members in memory; returns their ids.
pub(super) fn add_members(
    subject: &mut RunSubject,
    data: &ActionData,
    plan: &Plan,
    now: Timestamp,
) -> Vec<NodeId> {
    let head = plan.add_head.then(|| naming::head(&subject.cluster, now));
    let mut nodes: Vec<_> = head.into_iter().collect();
    let mut places = placements::unused(data);
    for (group, count) in &plan.add {
        let members = subject.nodes.as_slice();
        let workers = naming::new_workers(&mut subject.cluster, members, group, *count, now);
        nodes.extend(workers.into_iter().map(|worker| placements::assign(worker, places.next())));
    }
    let ids = nodes.iter().map(|node| node.id).collect();
    subject.nodes.add(nodes);
    ids
}

/// Applies the observation in memory.
pub(super) fn record_observed(nodes: &mut Members, children: &mut Children, plan: &Plan, now: Timestamp) {
    for (id, physical_id) in &plan.up {
        let is_known =
            |node: &Node| node.status == NodeStatus::Active && node.physical_id.as_ref() == Some(physical_id);
        // The observation of a node does not complete the change that this action makes to it.
        let is_changing = |node: &Node| matches!(node.status, NodeStatus::Deleting | NodeStatus::Operating);
        if nodes.get(*id).is_some_and(|node| !is_known(node) && !is_changing(node)) {
            record_started(nodes, children, *id, physical_id.clone(), now);
        }
    }
    for (id, why) in &plan.down {
        let worked = |node: &Node| {
            !matches!(
                node.status,
                NodeStatus::Error | NodeStatus::Creating | NodeStatus::Recovering | NodeStatus::Init
            )
        };
        if nodes.get(*id).is_some_and(worked) {
            nodes.set_status(*id, NodeStatus::Error, why, now);
        }
    }
}

/// Commits, before the step, the nodes that are about to be started and stopped, and their child actions.
pub(super) async fn record_step(
    run: &mut ActionRun,
    goal: &Goal,
    MemberStep { plan, added }: &MemberStep,
    intent: bool,
) -> Result<(), Stop> {
    let now = run.now();
    let lost_head = lost_head(&run.subject, plan);
    if lost_head.is_some() {
        // The new incarnation marks workers that cannot rejoin the new head as outdated.
        run.subject.cluster.incarnation += 1;
    }
    let mut children = record_starts(&mut run.subject, &mut run.children, plan, added, lost_head, now);
    children.extend(record_stops(&mut run.subject.nodes, &mut run.children, plan, &goal.leaving, now));
    run.subject.nodes.insert(added.iter().copied());
    remove_gone(&mut run.subject.nodes, &mut run.children, &plan.gone);
    if run.action.kind != ActionKind::ClusterCreate {
        run.data.record_added(added);
    }
    let mut record = run.pending();
    record.children = children;
    record.applied = true;
    // Decisions of policies are committed with the plan: an engine that takes over does not run them again.
    record.data = run.data.stored();
    if intent || lost_head.is_some() || !added.is_empty() {
        record.cluster = run.subject.row(&run.action);
    }
    run.record(record).await
}

/// Marks nodes that are about to be started; returns their child actions.
fn record_starts(
    RunSubject { cluster: Cluster { incarnation, .. }, nodes, .. }: &mut RunSubject,
    children: &mut Children,
    plan: &Plan,
    added: &[NodeId],
    lost_head: Option<NodeId>,
    now: Timestamp,
) -> Vec<Action> {
    let added: HashSet<NodeId> = added.iter().copied().collect();
    let mut begun = Vec::new();
    for id in &plan.start {
        let change = if added.contains(id) {
            Change::CreateNode(NewMember::default())
        } else {
            Change::RecoverNode(Recovery::default())
        };
        begun.extend(children.begin(&change, *id, now));
        if let Some(node) = nodes.get_mut(*id) {
            node.status =
                if node.created_at.is_none() { NodeStatus::Creating } else { NodeStatus::Recovering };
            if node.incarnation < *incarnation && lost_head != Some(*id) {
                // A node that follows a new head, or is restarted on request, did not crash.
                node.starts.clear();
            }
            node.incarnation = *incarnation;
            node.record_start(now);
            node.updated_at = Some(now);
        }
    }
    begun
}

/// Marks nodes that are about to be stopped; returns their child actions.
fn record_stops(
    nodes: &mut Members,
    children: &mut Children,
    plan: &Plan,
    leaving: &HashSet<NodeId>,
    now: Timestamp,
) -> Vec<Action> {
    let mut begun = Vec::new();
    for id in &plan.stop {
        // A node that is stopped to be recreated must not look lost to observers.
        let (change, status, reason) = if leaving.contains(id) {
            (Change::DeleteNode(Delete::default()), NodeStatus::Deleting, BEING_REMOVED)
        } else {
            (Change::RecoverNode(Recovery::default()), NodeStatus::Recovering, BEING_REPLACED)
        };
        begun.extend(children.begin(&change, *id, now));
        nodes.set_status(*id, status, reason, now);
    }
    begun
}

/// Returns the head if it worked before and is about to be restarted after a crash.
fn lost_head(subject: &RunSubject, plan: &Plan) -> Option<NodeId> {
    let present = subject.cluster.incarnation;
    let lost =
        |node: &Node| node.role == NodeRole::Head && node.created_at.is_some() && node.incarnation == present;
    plan.start.iter().copied().find(|id| subject.node(*id).is_some_and(lost))
}

/// Ends the child actions of members that are gone, and removes their rows with the next commit.
pub(super) fn remove_gone(nodes: &mut Members, children: &mut Children, gone: &[NodeId]) {
    for id in gone {
        children.end(*id, succeeded("Deletion succeeded"));
    }
    nodes.delete(gone.iter().copied());
}
