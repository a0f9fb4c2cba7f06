//! How an action is told to stop, and when it stops by itself.

use std::collections::HashSet;

use muster_core::action::{Action, Control};
use muster_core::ids::ActionId;
use muster_core::time::{Span, Timestamp};
use muster_store::Dialect;

use crate::ports::provider::ProviderError;
use crate::run::{ActionRun, Stop};

/// What the action was told, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) control: Option<Control>,
    pub(crate) cancelled_children: HashSet<ActionId>,
    /// Which version of the row was read.
    pub(crate) version: u64,
}

impl ActionRun {
    /// Whether the action has to stop here.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if self.lease.has_expired(self.now()) {
            return Err(Stop::Fenced);
        }
        match self.told.lock().control {
            Some(Control::Cancel) => return Err(Stop::Cancelled),
            Some(Control::Suspend) => return Err(Stop::Suspended),
            // A signal of a newer version waits for an engine that knows it.
            Some(Control::Unknown(_)) | None => {}
        }
        if self.time_left() == Span::default() {
            return Err(Stop::TimedOut);
        }
        if self.context.stopping.is_cancelled() { Err(Stop::HandOver) } else { Ok(()) }
    }

    /// Whether others may have taken it over.
    pub(crate) fn has_expired(&self) -> bool {
        self.lease.has_expired(self.now())
    }

    /// How long it may still run; suspensions do not count.
    pub(crate) fn time_left(&self) -> Span {
        time_left(&self.action, self.now())
    }

    /// Returns when the action was told to stop, the engine stops, its lease or its time is over.
    pub(crate) async fn interrupted(&self) -> Stop {
        loop {
            if let Err(stop) = self.check() {
                return stop;
            }
            if let Err(stop) = self.hear().await {
                return stop;
            }
        }
    }

    /// Returns when it has to stop, or, without an error, when nodes are to be left out that it has in slot.
    pub(crate) async fn interrupted_or_told(&self) -> Result<(), Stop> {
        loop {
            self.check()?;
            if !self.cancelled_children().is_empty() {
                return Ok(());
            }
            self.hear().await?;
        }
    }

    /// Waits for a word to this action, and reads it. Given up half-way it loses nothing: what counts as heard is
    /// noted only once it was read.
    async fn hear(&self) -> Result<(), Stop> {
        let read = self.told.lock().version;
        let left =
            self.time_left().min(self.context.config.safety_period).min(self.lease.time_left(self.now()));
        let told = tokio::select! {
            () = self.follow.changed_since(read) => true,
            () = self.context.stopping.cancelled() => return Ok(()),
            () = self.lease.lost.cancelled() => return Ok(()),
            () = tokio::time::sleep(left.into()) => false,
        };
        // A notice may get lost with its connection: now and then it is asked without one. Where there is none to get
        // lost, there is nothing to ask.
        if !told && self.context.store.dialect() == Dialect::Sqlite {
            return Ok(());
        }
        let version = self.follow.version();
        match self.context.store.told(self.action.id).await {
            Ok(Some(told)) if told.fence == self.action.fence => {
                let cancelled_children = told.cancelled_parts.into_iter().collect();
                *self.told.lock() = Told { control: told.control, cancelled_children, version };
                Ok(())
            }
            Ok(_) => Err(Stop::Fenced),
            Err(_) => {
                // Unknown changes nothing; it is read again.
                tokio::time::sleep(self.context.config.backoff.first.into()).await;
                Ok(())
            }
        }
    }

    /// A call to the provider, for as long as nothing says that the action has to stop. Its verbs are idempotent and
    /// fenced, so one that is cut short is safe to take up again.
    pub(crate) async fn call_provider<T>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<Result<T, ProviderError>, Stop> {
        tokio::select! {
            biased;
            done = call => Ok(done),
            stop = self.interrupted() => Err(stop),
        }
    }

    /// Waits for the world; meanwhile its slot is free for others.
    pub(crate) async fn yield_slot_while<T>(&self, wait: impl Future<Output = T>) -> T {
        match &self.slot {
            Some(slot) => slot.yield_while(wait).await,
            None => wait.await,
        }
    }

    /// Waits until then, unless the action has to stop before.
    pub(crate) async fn pause_until(&self, moment: Timestamp) -> Result<(), Stop> {
        tokio::select! {
            stop = self.interrupted() => Err(stop),
            () = self.context.clock.sleep_until(moment) => Ok(()),
        }
    }
}

/// How long an action may still run; suspensions do not count.
pub(crate) fn time_left(action: &Action, now: Timestamp) -> Span {
    let Some(started) = action.started_at else { return action.timeout };
    let ran = now.since(started).micros() - action.suspended_for.micros();
    Span::from_micros(action.timeout.micros() - ran)
}
