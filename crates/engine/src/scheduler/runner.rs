//! Runs one action from its claim to its end.

use std::sync::Arc;
use std::time::Duration;

use muster_core::action::{Action, ActionStatus};
use muster_store::commands::{Claimed, Requeue};
use tracing::Instrument as _;

use crate::actions;
use crate::actions::policies::{apply_effects, policy_context};
use crate::context::Context;
use crate::lease::Lease;
use crate::policy::Effects;
use crate::reconcile::individual::abort::stop_unfinished;
use crate::run::{ActionRun, Slot, Stop};
use crate::scheduler::finish::{end_without_work, finish, finish_superseded};
use crate::scheduler::requeue::{requeue, requeue_above};

/// The largest credible distance to a fence that was drawn before a restore from an older copy. A higher fence was not
/// drawn by a database and is rejected: a user who may edit an object could otherwise use up all fences.
const MOST_BEHIND: i64 = 1 << 40;

/// Delay before an action is retried after a database failure.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Runs a claimed action until it has ended, was requeued, or another engine owns it. Returns false if this engine may
/// still own the action without running it.
pub(crate) async fn run(context: Arc<Context>, lease: Arc<Lease>, claimed: Claimed, slot: Slot) -> bool {
    let Claimed { mut action, mut taken_over, deaths, mut subject, failed_task } = claimed;
    // At the highest level, so that no log filter drops the action's id from messages inside.
    let span = tracing::error_span!("run", action = %action.id, kind = %action.kind, fence = action.fence.0);
    async move {
        loop {
            let (subject, failed_task) = (subject.take(), failed_task.clone());
            let claimed = Claimed { action: action.clone(), taken_over, deaths, subject, failed_task };
            match Box::pin(attempt(&context, &lease, &slot, claimed)).await {
                Ok(()) => return true,
                Err(Stop::Fenced) => return false,
                Err(stop) => {
                    tracing::warn!(?stop, "did not end; trying again");
                    // Continue as in a take-over, so that a change that was committed already is not applied
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

/// Rereads the action, after a delay, until the database answers. Returns none if this engine does not own the action
/// any more, or stops.
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

/// Runs one attempt; an error means that not even the end could be written.
async fn attempt(
    context: &Arc<Context>,
    lease: &Arc<Lease>,
    slot: &Slot,
    claimed: Claimed,
) -> Result<(), Stop> {
    let Claimed { action, taken_over, deaths, subject, failed_task } = claimed;
    let (slot, ticket) = (Some(slot.clone()), lease.ticket(&action));
    let load = ActionRun::load(context, lease, slot, action, taken_over, subject);
    let mut run = match Box::pin(load).await {
        Ok(run) => run,
        Err(Stop::Failed(reason)) => return end_without_work(context, ticket, &reason, None).await,
        Err(stop) => return Err(stop),
    };
    run.control.set_deaths(deaths);
    let outcome = match (run.control.check(), failed_task) {
        (Ok(()), None) => check_policies_and_perform(&mut run).await,
        (Ok(()), Some(why)) => Err(Stop::Failed(format!("its image was not built: {why}"))),
        (Err(stop), _) => Err(stop),
    };
    if matches!(outcome, Err(Stop::Failed(_) | Stop::TimedOut | Stop::Cancelled)) {
        stop_unfinished(&mut run).await;
    }
    match outcome {
        Ok(reason) => finish(&mut run, ActionStatus::Succeeded, &reason).await,
        Err(Stop::Failed(reason)) => finish(&mut run, ActionStatus::Failed, &reason).await,
        Err(Stop::TimedOut) => {
            let reason = format!("TIMEOUT: it did not end within {} seconds", run.action.timeout.secs());
            finish(&mut run, ActionStatus::Failed, &reason).await
        }
        Err(Stop::Cancelled) => finish(&mut run, ActionStatus::Cancelled, "Action execution cancelled").await,
        Err(Stop::Superseded) => finish_superseded(&mut run).await,
        Err(Stop::Suspended) => release(&mut run, true, "The action is suspended.").await,
        Err(Stop::HandOver) => {
            release(&mut run, false, "The action was handed over: its engine stopped.").await
        }
        Err(Stop::Requeue(why)) => {
            run.flush().await?;
            let why = format!("it cannot run now: {why}");
            Ok(requeue(context, run.control.ticket(), &run.action, &why).await?)
        }
        Err(Stop::Overtaken(by)) if by.0 - run.action.fence.0 > MOST_BEHIND => {
            let reason = format!(
                "fence {} is in use, which this database cannot have issued: remove the annotation that has it, or the \
                 leftovers of the node",
                by.0
            );
            finish(&mut run, ActionStatus::Failed, &reason).await
        }
        Err(Stop::Overtaken(by)) => {
            run.flush().await?;
            Ok(requeue_above(&run, by).await?)
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
    match Box::pin(ActionRun::load(context, lease, None, action.clone(), true, None)).await {
        Ok(mut run) => finish(&mut run, ActionStatus::Failed, &reason).await,
        Err(Stop::Failed(_)) => end_without_work(context, lease.ticket(action), &reason, None).await,
        Err(stop) => Err(stop),
    }
}

/// Runs the policies and then the action, which stores their decisions.
async fn check_policies_and_perform(run: &mut ActionRun) -> Result<String, Stop> {
    // Once this or an earlier engine has recorded its decision, policies are not run again.
    let decided = run.action.applied_at.is_some() || run.data.delegated.is_some();
    if !run.subject.bindings.is_empty() && !decided {
        let mut effects = Effects::default();
        let ActionRun { context, action, change, subject, data, .. } = &mut *run;
        let policy_context = policy_context(context, (action, change), subject, data, &mut effects);
        let allowed = context.policies.before(&subject.bindings, policy_context).await;
        apply_effects(&mut run.subject, &mut run.journal, effects);
        if let Err(why) = allowed {
            let now = run.now();
            actions::discard_refused(&mut run.subject, &run.change, &why, now);
            return Err(Stop::Failed(why));
        }
    }
    actions::perform(run).await
}

/// Releases the action for another claim; its locks stay.
async fn release(run: &mut ActionRun, suspend: bool, reason: &str) -> Result<(), Stop> {
    run.flush().await?;
    let command = Requeue {
        ticket: run.control.ticket(),
        not_before: None,
        suspend,
        count: false,
        reason: reason.to_owned(),
        above: None,
        now: run.now(),
    };
    Ok(run.context.store.requeue(command).await?)
}
