//! Ends an action: its last commit, and the final status of its cluster and nodes.

use muster_core::action::{Action, ActionKind, ActionStatus, Cause, SUPERSEDED_OUTPUT};
use muster_core::cluster::ClusterStatus;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::{Node, NodeStatus};
use muster_core::status::{HeadState, WorkingCounts};
use muster_core::time::Timestamp;
use muster_store::commands::{ActionEnd, Record, Ticket};

use crate::actions;
use crate::actions::policies::{apply_effects, policy_context};
use crate::context::Context;
use crate::events;
use crate::policy::Effects;
use crate::reconcile::individual::abort::{is_healing_disabled, is_unfinished, with_healing_disabled};
use crate::reconcile::reasons::restart_needed;
use crate::run::{ActionRun, RunSubject, Stop};

/// The reason of an action that a later change has superseded.
const SUPERSEDED: &str =
    "Superseded: its change is applied, and a later change was made before all nodes were ready.";

/// Ends an action whose change is applied, for a later change of its cluster.
pub(crate) async fn finish_superseded(run: &mut ActionRun) -> Result<(), Stop> {
    run.journal.set_output(SUPERSEDED_OUTPUT, true.into());
    finish(run, ActionStatus::Cancelled, SUPERSEDED).await
}

/// Commits the end of an action: results, the cluster's status, the end of the action and of all children, and the
/// release of its locks.
pub(crate) async fn finish(run: &mut ActionRun, status: ActionStatus, reason: &str) -> Result<(), Stop> {
    let is_superseded = run.journal.has_output(SUPERSEDED_OUTPUT);
    if status != ActionStatus::Succeeded {
        run.subject.take_back_uncommitted();
    }
    let reason = notify_policies(run, status, reason).await;
    let now = run.now();
    if status != ActionStatus::Succeeded {
        actions::roll_back(&mut run.subject, &run.change, &run.data);
    }
    let end = ActionEnd { status, reason };
    settle_nodes(&mut run.subject, run.action.kind, &end, now);
    if run.action.cause == Cause::Healing && status != ActionStatus::Cancelled {
        // A healing that was cancelled by a user's action is due again afterwards; a failed one is not retried.
        run.subject.nodes.change_where(Node::is_healing_due, |node| node.set_healing_due(false));
    }
    let deleted = actions::deletes(&run.change) && status == ActionStatus::Succeeded;
    settle_cluster(&mut run.subject, &run.action, deleted, &end, now);
    if is_superseded && run.action.kind == ActionKind::ClusterCreate {
        // The later change completes the creation.
        run.subject.cluster.status = ClusterStatus::Creating;
        run.subject.cluster.status_reason.clone_from(&end.reason);
    }
    let phase = if status == ActionStatus::Succeeded || is_superseded { "end" } else { "error" };
    let mut ended = match &run.subject.target {
        Some(node) => events::of_node_action(&run.action, node, phase, &end.reason, now),
        None => events::of_action(&run.action, &run.subject.cluster, phase, &end.reason, now),
    };
    run.record_amounts(&mut ended);
    run.journal.events.push(ended);
    let mut record = run.pending();
    record.applied = status == ActionStatus::Succeeded;
    if run.subject.is_shared(run.action.kind) {
        record.evaluate = Some((run.subject.cluster.id, run.action.kind));
    } else {
        record.cluster = run.subject.row(&run.action);
    }
    record.end_other_children = Some(end.clone());
    record.data = run.data.stored();
    record.bindings = std::mem::take(&mut run.journal.bindings);
    record.end = Some(end.clone());
    match run.record(record).await {
        Err(Stop::Failed(why)) => return end_unrecorded(run, &why).await,
        recorded => recorded?,
    }
    run.context.metrics.action_ended(run.action.kind, status);
    tracing::info!(%status, reason = end.reason, "ended");
    Ok(())
}

/// Ends an action whose results the database refuses to store, with nothing but the reason: another attempt would be
/// refused likewise. The cluster is evaluated by its rows, if those can be read.
async fn end_unrecorded(run: &ActionRun, why: &str) -> Result<(), Stop> {
    let reason = format!("its results were not stored: {why}");
    let (ticket, kind) = (run.control.ticket(), run.action.kind);
    let cluster = run.action.cluster_id.map(|id| (id, kind));
    let mut ended = end_without_work(&run.context, ticket, &reason, cluster).await;
    if matches!(ended, Err(Stop::Failed(_))) {
        ended = end_without_work(&run.context, ticket, &reason, None).await;
    }
    ended?;
    run.context.metrics.action_ended(kind, ActionStatus::Failed);
    tracing::error!(reason, "ended without its results");
    Ok(())
}

/// Ends an action as failed and releases its locks. Otherwise only the status of the cluster in `evaluate` changes.
pub(super) async fn end_without_work(
    context: &Context,
    ticket: Ticket,
    reason: &str,
    evaluate: Option<(ClusterId, ActionKind)>,
) -> Result<(), Stop> {
    let mut record = Record::new(ticket, context.clock.now());
    record.end = Some(ActionEnd { status: ActionStatus::Failed, reason: reason.to_owned() });
    record.end_other_children = record.end.clone();
    record.evaluate = evaluate;
    context.store.record(record).await?;
    Ok(())
}

async fn notify_policies(run: &mut ActionRun, status: ActionStatus, reason: &str) -> String {
    let ActionRun { context, action, change, subject, data, journal, .. } = run;
    if subject.bindings.is_empty() {
        return reason.to_owned();
    }
    let mut effects = Effects::default();
    let policy_context = policy_context(context, (action, change), subject, data, &mut effects);
    let succeeded = status == ActionStatus::Succeeded;
    let result = context.policies.after(&subject.bindings, policy_context, succeeded).await;
    apply_effects(subject, journal, effects);
    match result {
        Ok(()) => reason.to_owned(),
        Err(why) => format!("{reason} {why}"),
    }
}

/// Marks nodes that the action began to change and did not finish.
fn settle_nodes(subject: &mut RunSubject, kind: ActionKind, end: &ActionEnd, now: Timestamp) {
    // Delegated members keep their observed status; their operator continues.
    if end.status == ActionStatus::Succeeded || subject.is_delegated() {
        return;
    }
    let unfinished = subject.own_nodes(kind).filter(|node| is_unfinished(node.status));
    let ids: Vec<NodeId> = unfinished.map(|node| node.id).collect();
    for id in ids {
        if let Some(node) = subject.nodes.get_mut(id) {
            node.status = NodeStatus::Error;
            // An earlier success or progress message is no reason for an error.
            let stale = ["succeeded", "in progress"];
            if node.status_reason.is_empty() || stale.iter().any(|end| node.status_reason.ends_with(end)) {
                node.status_reason.clone_from(&end.reason);
            }
            node.updated_at = Some(now);
        }
    }
}

/// Sets the cluster's status and its reason from its nodes and the end of the action.
fn settle_cluster(subject: &mut RunSubject, action: &Action, deleted: bool, end: &ActionEnd, now: Timestamp) {
    let succeeded = end.status == ActionStatus::Succeeded;
    let counts = WorkingCounts::of(&subject.cluster, subject.nodes.as_slice());
    let (mut new_status, mut new_reason) = counts.evaluate(&subject.cluster, events::action_label(action));
    let created = succeeded || action.kind != ActionKind::ClusterCreate;
    if !created && counts.head == HeadState::Lost {
        (new_status, new_reason) =
            (ClusterStatus::Error, format!("{}: the head did not start.", action.kind));
    }
    if deleted {
        (new_status, new_reason) = (ClusterStatus::Deleted, end.reason.clone());
        subject.cluster.deleted_at = Some(now);
    } else if !succeeded {
        new_reason = format!("{new_reason} {}", end.reason);
        if is_healing_disabled(&subject.cluster, &subject.capabilities) {
            new_reason = with_healing_disabled(&new_reason);
        }
    } else if new_status != ClusterStatus::Active && !subject.obstacles.is_empty() {
        new_reason = format!("{new_reason} {}", subject.obstacles.join("; "));
    }
    let outdated = subject.nodes.outdated_names();
    if let Some(outdated) = restart_needed(&outdated).filter(|_| succeeded && !deleted) {
        new_reason = format!("{new_reason} {outdated}");
    }
    let cluster = &mut subject.cluster;
    cluster.observed.outdated = outdated;
    cluster.status = new_status;
    cluster.status_reason = new_reason;
    cluster.updated_at = Some(now);
    if succeeded {
        cluster.created_at = cluster.created_at.or(Some(now));
    }
    counts.write_to(cluster);
    cluster.observed.at = Some(now);
}

#[cfg(test)]
mod tests;
