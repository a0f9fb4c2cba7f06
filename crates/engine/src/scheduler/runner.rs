//! Runs one action from its claim to its end.

use std::sync::Arc;
use std::time::Duration;

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::ClusterStatus;
use muster_core::node::NodeStatus;
use muster_core::status::{Counts, HeadState};
use muster_store::StoreError;
use muster_store::commands::{Claimed, End, Requeue};
use muster_store::reads::Subject;
use tracing::Instrument as _;

use crate::actions;
use crate::context::Context;
use crate::events;
use crate::lease::Lease;
use crate::policy::Effects;
use crate::reconcile::individual::abort::{is_healing_disabled, is_unfinished, with_healing_disabled};
use crate::run::Slot;
use crate::run::{ActionRun, Stop};
use crate::scheduler::requeue::requeue;

/// Delay before an action is retried after a database failure.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Runs a claimed action until it has ended or another engine owns it; false if it may be left without a running
/// engine.
pub(crate) async fn run(context: Arc<Context>, lease: Arc<Lease>, claimed: Claimed, slot: Slot) -> bool {
    let Claimed { mut action, mut taken_over, mut subject } = claimed;
    // At the highest level, so that no log filter drops the action's id from messages inside.
    let span = tracing::error_span!("run", action = %action.id, kind = %action.kind, fence = action.fence.0);
    async move {
        loop {
            match Box::pin(attempt(&context, &lease, &slot, &action, taken_over, subject.take())).await {
                Ok(()) => return true,
                Err(Stop::Fenced) => return false,
                Err(stop) => {
                    tracing::warn!(?stop, "did not end; trying again");
                    // Continue like another engine that takes over: a change that was committed already is not made
                    // twice.
                    taken_over = true;
                    match reread(&context, &lease, &action).await {
                        Some(read) => action = read,
                        None => return false,
                    }
                }
            }
        }
    }
    .instrument(span)
    .await
}

/// Waits, and rereads the action until the database answers; none if this engine does not own it any more.
async fn reread(context: &Context, lease: &Lease, action: &Action) -> Option<Action> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(RETRY_DELAY) => {}
            () = context.stopping.cancelled() => return None,
            () = lease.lost.cancelled() => return None,
        }
        match context.store.action(action.id).await {
            Ok(read) => {
                let ours = |read: &Action| {
                    read.status == ActionStatus::Running
                        && read.fence == action.fence
                        && read.owner == Some(lease.id)
                };
                return read.filter(ours);
            }
            Err(error) => tracing::warn!(%error, "cannot read the action"),
        }
    }
}

/// One attempt: an error means that not even the end could be written.
async fn attempt(
    context: &Arc<Context>,
    lease: &Arc<Lease>,
    slot: &Slot,
    action: &Action,
    taken_over: bool,
    subject: Option<Subject>,
) -> Result<(), Stop> {
    let mut run = match Box::pin(ActionRun::load(context, lease, action.clone(), taken_over, subject)).await {
        Ok(run) => run,
        Err(Stop::Failed(reason)) => return end_without_work(context, lease, action, reason).await,
        Err(stop) => return Err(stop),
    };
    run.slot = Some(slot.clone());
    let outcome = match run.check() {
        Ok(()) => check_policies_and_perform(&mut run).await,
        Err(stop) => Err(stop),
    };
    if matches!(outcome, Err(Stop::Failed(_) | Stop::TimedOut | Stop::Cancelled)) {
        run.stop_unfinished().await;
    }
    match outcome {
        Ok(reason) => run.finish(ActionStatus::Succeeded, &reason).await,
        Err(Stop::Failed(reason)) => run.finish(ActionStatus::Failed, &reason).await,
        Err(Stop::TimedOut) => {
            let reason = format!("TIMEOUT: it did not end within {} seconds", run.action.timeout.secs());
            run.finish(ActionStatus::Failed, &reason).await
        }
        Err(Stop::Cancelled) => run.finish(ActionStatus::Cancelled, "Action execution cancelled").await,
        Err(Stop::Suspended) => run.release(true, "The action is suspended.").await,
        Err(Stop::HandOver) => run.release(false, "The action was handed over: its engine stopped.").await,
        Err(Stop::Requeue(why)) => {
            run.flush().await?;
            let why = format!("it did not run for the moment: {why}");
            Ok(requeue(context, run.ticket(), &run.action, &why).await?)
        }
        Err(stop @ (Stop::Fenced | Stop::StoreUnavailable(_))) => Err(stop),
    }
}

/// Ends an action that is not retried, without calling its provider.
pub(crate) async fn give_up(
    context: &Arc<Context>,
    lease: &Arc<Lease>,
    action: &Action,
    reason: String,
) -> Result<(), Stop> {
    match Box::pin(ActionRun::load(context, lease, action.clone(), true, None)).await {
        Ok(mut run) => run.finish(ActionStatus::Failed, &reason).await,
        Err(Stop::Failed(_)) => end_without_work(context, lease, action, reason).await,
        Err(stop) => Err(stop),
    }
}

/// Runs the policies, and then the action; their decisions are stored with it.
async fn check_policies_and_perform(run: &mut ActionRun) -> Result<String, Stop> {
    if !run.subject.bindings.is_empty() && !run.is_planned() {
        let mut data = std::mem::take(&mut run.data);
        let mut effects = Effects::default();
        let context = run.policy_context(&mut data, &mut effects);
        let allowed = run.context.policies.before(&run.subject.bindings, context).await;
        run.data = data;
        run.apply_effects(effects);
        if let Err(why) = allowed {
            actions::discard_refused(run, &why);
            return Err(Stop::Failed(why));
        }
    }
    actions::perform(run).await
}

impl ActionRun {
    /// The last commit: results, the cluster's status, the end of the action and of all children, and the release of
    /// its locks.
    async fn finish(&mut self, status: ActionStatus, reason: &str) -> Result<(), Stop> {
        let reason = self.notify_policies(status, reason).await;
        let now = self.now();
        if status != ActionStatus::Succeeded {
            actions::roll_back(self);
        }
        self.settle_nodes(status, &reason);
        let deleted = actions::deletes(&self.change) && status == ActionStatus::Succeeded;
        self.settle_cluster(deleted, status, &reason);
        let phase = if status == ActionStatus::Succeeded { "end" } else { "error" };
        let event = match &self.subject.target {
            Some(node) => events::of_node_action(&self.action, node, phase, &reason, now),
            None => events::of_action(&self.action, &self.subject.cluster, phase, &reason, now),
        };
        self.journal.events.push(event);
        let mut record = self.pending();
        record.applied = status == ActionStatus::Succeeded;
        if self.shares_cluster() {
            record.evaluate = Some((self.subject.cluster.id, self.action.kind));
        } else {
            record.cluster = self.row();
        }
        record.end_other_children = Some(End { status, reason: reason.clone() });
        record.data = self.data.stored();
        record.bindings = std::mem::take(&mut self.journal.effects.bindings);
        record.end = Some(End { status, reason: reason.clone() });
        self.record(record).await?;
        self.context.metrics.action_ended(self.action.kind, status);
        tracing::info!(%status, reason, "ended");
        Ok(())
    }

    async fn notify_policies(&mut self, status: ActionStatus, reason: &str) -> String {
        if self.subject.bindings.is_empty() {
            return reason.to_owned();
        }
        let mut data = std::mem::take(&mut self.data);
        let mut effects = Effects::default();
        let context = self.policy_context(&mut data, &mut effects);
        let result = self
            .context
            .policies
            .after(&self.subject.bindings, context, status == ActionStatus::Succeeded)
            .await;
        self.data = data;
        self.apply_effects(effects);
        match result {
            Ok(()) => reason.to_owned(),
            Err(why) => format!("{reason} {why}"),
        }
    }

    /// Marks nodes that this action began to change and did not finish.
    fn settle_nodes(&mut self, status: ActionStatus, reason: &str) {
        // Delegated members keep their observed status; their operator continues.
        if status == ActionStatus::Succeeded || self.subject.is_delegated() {
            return;
        }
        let now = self.now();
        let unfinished = self.own_nodes().filter(|node| is_unfinished(node.status));
        let ids: Vec<_> = unfinished.map(|node| node.id).collect();
        for id in ids {
            if let Some(node) = self.node_mut(id) {
                node.status = NodeStatus::Error;
                // An earlier success or progress message is no reason for an error.
                let stale = ["succeeded", "in progress"];
                if node.status_reason.is_empty() || stale.iter().any(|end| node.status_reason.ends_with(end))
                {
                    reason.clone_into(&mut node.status_reason);
                }
                node.updated_at = Some(now);
            }
        }
    }

    fn settle_cluster(&mut self, deleted: bool, status: ActionStatus, reason: &str) {
        let now = self.now();
        let counts = Counts::of(&self.subject.cluster, &self.subject.nodes);
        let (mut new_status, mut new_reason) =
            counts.evaluate(&self.subject.cluster, events::action_label(&self.action));
        let created = status == ActionStatus::Succeeded || self.action.kind != ActionKind::ClusterCreate;
        if !created && counts.head == HeadState::Lost {
            (new_status, new_reason) =
                (ClusterStatus::Error, format!("{}: the head did not start.", self.action.kind));
        }
        if deleted {
            (new_status, new_reason) = (ClusterStatus::Deleted, reason.to_owned());
            self.subject.cluster.deleted_at = Some(now);
        } else if status != ActionStatus::Succeeded {
            new_reason = format!("{new_reason} {reason}");
            if is_healing_disabled(&self.subject.cluster, &self.subject.capabilities) {
                new_reason = with_healing_disabled(&new_reason);
            }
        } else if new_status != ClusterStatus::Active && !self.obstacles.is_empty() {
            new_reason = format!("{new_reason} {}", self.obstacles.join("; "));
        }
        let cluster = &mut self.subject.cluster;
        cluster.status = new_status;
        cluster.status_reason = new_reason;
        cluster.updated_at = Some(now);
        if status == ActionStatus::Succeeded {
            cluster.created_at = cluster.created_at.or(Some(now));
        }
        counts.write_to(cluster);
        cluster.observed.at = Some(now);
    }

    /// Releases the action for another claim; its locks stay.
    async fn release(&mut self, suspend: bool, reason: &str) -> Result<(), Stop> {
        self.flush().await?;
        let command = Requeue {
            ticket: self.ticket(),
            not_before: None,
            suspend,
            count: false,
            reason: reason.to_owned(),
            now: self.now(),
        };
        Ok(self.context.store.requeue(command).await?)
    }
}

/// Ends an action whose target does not exist: nothing else changes.
async fn end_without_work(
    context: &Context,
    lease: &Lease,
    action: &Action,
    reason: String,
) -> Result<(), Stop> {
    let ticket = lease.ticket(action);
    let mut record = muster_store::commands::Record::new(ticket, context.clock.now());
    record.end = Some(End { status: ActionStatus::Failed, reason: reason.clone() });
    record.end_other_children = record.end.clone();
    match context.store.record(record).await {
        Ok(_) => Ok(()),
        Err(StoreError::Fenced(_)) => Err(Stop::Fenced),
        Err(error) => Err(Stop::StoreUnavailable(error.to_string())),
    }
}
