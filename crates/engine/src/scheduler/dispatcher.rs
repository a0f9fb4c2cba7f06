//! Claims actions as long as there are free slots.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_core::action::{Action, ActionStatus, Fence};
use muster_core::ids::ActionId;
use muster_store::commands::{Claim, Claimed, Requeue};
use muster_store::reads::ActionQuery;
use muster_store::{Dialect, StoreError};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::actions;
use crate::context::Context;
use crate::lease::Lease;
use crate::run::Slot;
use crate::scheduler::supervised;

/// Claims whenever there may be work: when notified of a commit, and periodically in case a notification was lost.
pub(crate) struct Dispatcher {
    context: Arc<Context>,
    slots: Arc<Semaphore>,
    running_actions: Arc<RunningActions>,
}

impl Dispatcher {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        let slots = Semaphore::new(usize::try_from(context.config.parallel_actions).unwrap_or(1));
        Self { context: Arc::clone(context), slots: Arc::new(slots), running_actions: Arc::default() }
    }

    /// Runs until the engine is asked to stop. May be restarted after a panic, which does not affect running actions.
    pub(crate) async fn run(self: Arc<Self>) {
        let Self { context, slots, running_actions } = &*self;
        let period: Duration = context.config.safety_period.into();
        loop {
            // At least one slot has to be free, or a claimed action would wait in a running state.
            context.liveness.dispatcher_begins(slots.available_permits() == 0);
            let Some(slot) = Slot::take(slots).await else { return };
            drop(slot);
            if context.stopping.is_cancelled() {
                return;
            }
            if claim(context, slots, running_actions).await == More::Perhaps {
                continue;
            }
            tokio::select! {
                () = context.notifier.work.notified() => {}
                () = tokio::time::sleep(period) => {}
                () = context.stopping.cancelled() => return,
            }
        }
    }
}

/// The actions that run in this engine, and a flag that it may own others which it does not run.
#[derive(Default)]
struct RunningActions {
    actions: Mutex<HashSet<(ActionId, Fence)>>,
    may_have_orphans: AtomicBool,
}

impl RunningActions {
    /// Requeues actions that this engine owns by their rows and does not run: claimed by a commit whose response got
    /// lost, or dropped by a run that considered its lease expired. No other engine would claim them while this one
    /// lives.
    async fn requeue_orphans(&self, context: &Context, lease: &Lease) -> Result<(), StoreError> {
        if !self.may_have_orphans.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let statuses = vec![ActionStatus::Running];
        let query = ActionQuery { statuses, top_level: true, ..ActionQuery::default() };
        let running = context.store.actions(&query).await?.items;
        let is_orphan = |action: &Action| {
            action.owner == Some(lease.id) && !self.actions.lock().contains(&(action.id, action.fence))
        };
        for action in running.into_iter().filter(is_orphan) {
            tracing::warn!(action = %action.id, "requeued: this engine owned it and did not run it");
            let ticket = lease.ticket(&action);
            let reason = "The action was requeued: its engine owned it and did not run it.".to_owned();
            let now = context.clock.now();
            let (not_before, above) = (None, None);
            let requeue = Requeue { ticket, not_before, suspend: false, count: false, reason, above, now };
            match context.store.requeue(requeue).await {
                Ok(()) | Err(StoreError::Fenced(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The result of a claim: the chance that another claim finds more actions.
#[derive(PartialEq, Eq)]
enum More {
    Perhaps,
    /// There are none before the next notification.
    No,
}

/// Claims as many actions as there are free slots.
async fn claim(
    context: &Arc<Context>,
    slots: &Arc<Semaphore>,
    running_actions: &Arc<RunningActions>,
) -> More {
    let lease = context.lease();
    if lease.has_expired(context.clock.now()) {
        return More::No;
    }
    if let Err(error) = running_actions.requeue_orphans(context, &lease).await {
        tracing::warn!(%error, "cannot requeue actions that do not run");
        running_actions.may_have_orphans.store(true, Ordering::Release);
    }
    let limit = slots.available_permits();
    if limit == 0 {
        // An action that had yielded its slot has taken it again.
        return More::Perhaps;
    }
    let command = Claim {
        engine: lease.id,
        instances: context.instances(),
        kinds: actions::executable_kinds(),
        limit: u32::try_from(limit).unwrap_or(u32::MAX),
        now: context.clock.now(),
    };
    let claimed = match context.store.claim(command).await {
        Ok(claimed) => claimed,
        Err(error) => {
            tracing::warn!(%error, "cannot claim");
            context.liveness.dispatcher_ended(Some(error.to_string()));
            // The claim may have been committed although the call failed.
            running_actions.may_have_orphans.store(true, Ordering::Release);
            return More::No;
        }
    };
    context.liveness.dispatcher_ended(None);
    // Fewer than the limit means that there are no more, and another claim would only delay these. On PostgreSQL there
    // may be more, because rows that other engines had locked were skipped.
    let passed_over = !claimed.is_empty() && context.store.dialect() == Dialect::Postgres;
    let more = if claimed.len() < limit && !passed_over { More::No } else { More::Perhaps };
    for action in claimed {
        // No more were claimed than slots were free, so this waits only if actions took back slots they had yielded.
        let Some(slot) = Slot::take(slots).await else { return more };
        let (context, lease) = (Arc::clone(context), Arc::clone(&lease));
        let mut guard = RunningGuard::take(Arc::clone(running_actions), Arc::clone(&context), &action);
        context.tasks.clone().spawn(async move {
            guard.ended = Box::pin(supervised::run(context, lease, action, slot)).await;
            drop(guard);
        });
    }
    more
}

/// Registers a running action until the guard is dropped, which happens however the run ends, also by a panic.
struct RunningGuard {
    running_actions: Arc<RunningActions>,
    context: Arc<Context>,
    key: (ActionId, Fence),
    ended: bool,
}

impl RunningGuard {
    fn take(running_actions: Arc<RunningActions>, context: Arc<Context>, claimed: &Claimed) -> Self {
        let key = (claimed.action.id, claimed.action.fence);
        running_actions.actions.lock().insert(key);
        context.metrics.action_started(claimed.taken_over);
        Self { running_actions, context, key, ended: false }
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.running_actions.actions.lock().remove(&self.key);
        self.context.metrics.action_released();
        if !self.ended {
            self.running_actions.may_have_orphans.store(true, Ordering::Release);
            self.context.notifier.work.notify_one();
        }
    }
}
