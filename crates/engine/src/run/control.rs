//! Interruptions of an action: signals of users, its deadline, the end of its engine's lease, the stop of the engine.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use muster_core::action::{self, Action};
use muster_core::ids::{ActionId, NodeId};
use muster_core::time::{TimeSpan, Timestamp};
use muster_store::Dialect;
use muster_store::commands::{CountDeaths, Ticket};
use parking_lot::Mutex;

use crate::context::Context;
use crate::lease::Lease;
use crate::notify::{Subscription, Topic};
use crate::ports::clock::wait_until;
use crate::ports::provider::ProviderError;
use crate::run::{Children, Slot, Stop};

/// The signals, deadlines and lease that may interrupt an action, and the slot that it occupies.
pub(crate) struct RunControl {
    context: Arc<Context>,
    lease: Arc<Lease>,
    action: Arc<Action>,
    /// The slot that the action occupies; an action that is only brought to its end needs none.
    slot: Option<Slot>,
    /// Notified when the action's row, or that of a child, was given a signal.
    signals: Subscription,
    received: Mutex<ReadSignals>,
    /// The deadline of the current step, before the action's own timeout.
    pub(crate) deadline: Option<Timestamp>,
    /// The number of engines that died in a row while they ran the action, as recorded in its row.
    deaths: AtomicU32,
    /// True once the change is applied and the action only waits for an operator to complete it.
    may_yield: AtomicBool,
}

/// The signals that were read.
#[derive(Debug, Default)]
struct ReadSignals {
    control: Option<action::Control>,
    cancelled_children: HashSet<ActionId>,
    /// The version of the last notification that this read covers.
    version: u64,
}

impl RunControl {
    pub(super) fn new(
        context: &Arc<Context>,
        lease: &Arc<Lease>,
        action: &Arc<Action>,
        slot: Option<Slot>,
    ) -> Self {
        let signals = context.notifier.subscribe(Topic::Action(action.id));
        // Signals that were sent before this have not been read yet.
        let version = signals.version().wrapping_sub(1);
        let received = ReadSignals { control: action.control, version, ..ReadSignals::default() };
        Self {
            context: Arc::clone(context),
            lease: Arc::clone(lease),
            action: Arc::clone(action),
            slot,
            signals,
            received: Mutex::new(received),
            deadline: None,
            deaths: AtomicU32::new(0),
            may_yield: AtomicBool::new(false),
        }
    }

    /// Lets the action end from now on if a later change waits for its cluster.
    pub(crate) fn allow_yield(&self) {
        self.may_yield.store(true, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    /// Returns the ticket that fences the commits of the action.
    pub(crate) fn ticket(&self) -> Ticket {
        self.lease.ticket(&self.action)
    }

    /// Returns the version of the last notification of a signal.
    pub(super) fn signals_version(&self) -> u64 {
        self.signals.version()
    }

    /// Receives the signal that a commit returned. `version` was current before the commit.
    pub(super) fn take_signal(&self, signal: Option<action::Control>, version: u64, children_are_new: bool) {
        let mut received = self.received.lock();
        received.control = signal;
        if received.version == version || children_are_new {
            received.version = version;
        }
    }

    /// Returns the nodes that a user excluded by cancelling their child action.
    pub(crate) fn cancelled(&self, children: &Children) -> Vec<(NodeId, ActionId)> {
        children.open_among(&self.received.lock().cancelled_children)
    }

    /// Fails if the action has to stop now.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if self.has_expired() {
            return Err(Stop::Fenced);
        }
        let signal = self.received.lock().control;
        match signal {
            Some(action::Control::Cancel) => return Err(Stop::Cancelled),
            Some(action::Control::Suspend) => return Err(Stop::Suspended),
            Some(action::Control::Yield) if self.may_yield.load(Ordering::Relaxed) => {
                return Err(Stop::Superseded);
            }
            // A signal of a newer version waits for an engine that knows it.
            Some(action::Control::Yield | action::Control::Unknown(_)) | None => {}
        }
        if self.time_left() == TimeSpan::default() {
            return Err(Stop::TimedOut);
        }
        if self.context.stopping.is_cancelled() { Err(Stop::HandOver) } else { Ok(()) }
    }

    /// Returns true if other engines may have taken the action over.
    pub(crate) fn has_expired(&self) -> bool {
        self.lease.has_expired(self.now())
    }

    /// Returns the time that the action or its current step may still run; suspensions do not count.
    pub(crate) fn time_left(&self) -> TimeSpan {
        let now = self.now();
        let left = time_left(&self.action, now);
        self.deadline.map_or(left, |deadline| left.min(deadline.since(now)))
    }

    /// Returns when the action has to stop.
    pub(crate) async fn interrupted(&self) -> Stop {
        loop {
            if let Err(stop) = self.check() {
                return stop;
            }
            if let Err(stop) = self.read_signals().await {
                return stop;
            }
        }
    }

    /// Returns when the action has to stop, or, without an error, when some of its open children were cancelled.
    pub(crate) async fn interrupted_or_child_cancelled(&self, children: &Children) -> Result<(), Stop> {
        loop {
            self.check()?;
            if !self.cancelled(children).is_empty() {
                return Ok(());
            }
            self.read_signals().await?;
        }
    }

    /// Waits for a signal, and reads it. Cancel-safe: a signal counts as received only once it was read.
    async fn read_signals(&self) -> Result<(), Stop> {
        let Self { lease, signals, received, .. } = self;
        let read = received.lock().version;
        let left = self.time_left().min(self.context.config.safety_period).min(lease.time_left(self.now()));
        let notified = tokio::select! {
            () = signals.changed_since(read) => true,
            () = self.context.stopping.cancelled() => return Ok(()),
            () = lease.lost.cancelled() => return Ok(()),
            () = tokio::time::sleep(left.into()) => false,
        };
        // Poll in case a notification was lost with its connection; SQLite has no connection to lose.
        if !notified && self.context.store.dialect() == Dialect::Sqlite {
            return Ok(());
        }
        let version = signals.version();
        match self.context.store.signals(self.action.id).await {
            Ok(Some(row)) if row.fence == self.action.fence => {
                let cancelled_children = row.cancelled_children.into_iter().collect();
                *received.lock() = ReadSignals { control: row.control, cancelled_children, version };
                Ok(())
            }
            Ok(_) => Err(Stop::Fenced),
            Err(_) => {
                // Signals that cannot be read change nothing: read them again later.
                tokio::time::sleep(self.context.config.backoff.first.into()).await;
                Ok(())
            }
        }
    }

    /// Calls the provider until the action has to stop. Provider calls are idempotent and fenced, so a call that is cut
    /// short can be repeated.
    pub(crate) async fn call_provider<T>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<Result<T, ProviderError>, Stop> {
        tokio::select! {
            // Interruptions go first: a call of several requests must not send the next one for a lost action.
            biased;
            stop = self.interrupted() => Err(stop),
            done = call => Ok(done),
        }
    }

    /// Waits without occupying a slot.
    pub(crate) async fn yield_slot_while<T>(&self, wait: impl Future<Output = T>) -> T {
        // Boxed, because the future may be large and each of these functions would hold a copy.
        let wait = Box::pin(wait);
        match &self.slot {
            Some(slot) => slot.yield_while(wait).await,
            None => wait.await,
        }
    }

    /// Sets the number of engines that died in a row while they ran the action; a commit resets it to zero.
    pub(crate) fn set_deaths(&self, deaths: u32) {
        self.deaths.store(deaths, Ordering::Relaxed);
    }

    /// Waits without occupying a slot, for something that this engine does not work on: if the engine dies meanwhile,
    /// the action is not the cause, and the death does not count towards its quarantine.
    pub(crate) async fn wait_idly<T>(&self, wait: impl Future<Output = T>) -> T {
        let deaths = self.deaths.load(Ordering::Relaxed);
        if deaths == 0 {
            return self.yield_slot_while(wait).await;
        }
        self.count_deaths(deaths - 1).await;
        let waited = self.yield_slot_while(wait).await;
        self.count_deaths(deaths).await;
        waited
    }

    async fn count_deaths(&self, deaths: u32) {
        let counted = self.context.store.count_deaths(CountDeaths { ticket: self.ticket(), deaths }).await;
        if let Err(error) = counted {
            tracing::debug!(%error, "cannot count the engines that died");
        }
    }

    /// Waits until a given time without occupying a slot, unless the action has to stop before.
    pub(crate) async fn pause_until(&self, moment: Timestamp) -> Result<(), Stop> {
        self.wait_idly(async {
            tokio::select! {
                stop = self.interrupted() => Err(stop),
                () = wait_until(self.context.clock.as_ref(), moment) => Ok(()),
            }
        })
        .await
    }
}

/// Returns the time that an action may still run; suspensions do not count.
pub(crate) fn time_left(action: &Action, now: Timestamp) -> TimeSpan {
    let Some(started) = action.started_at else { return action.timeout };
    let ran = now.since(started).micros() - action.suspended_for.micros();
    TimeSpan::from_micros(action.timeout.micros() - ran)
}

#[cfg(test)]
mod tests;
