//! Whether the engine's own loops go round, for the probes of the server.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A dispatcher that has not looked for work for so long is stalled.
const STALLED_AFTER: Duration = Duration::from_secs(15);

/// A heartbeat that has not gone round for so long is dead: no call that it makes takes that long.
const DEAD_AFTER: Duration = Duration::from_secs(90);

/// When the loops of an engine last went round, and why their last round failed.
#[derive(Default)]
pub(crate) struct Liveness {
    heartbeat: Mutex<Round>,
    dispatcher: Mutex<Round>,
}

struct Round {
    at: Instant,
    error: Option<String>,
    /// Every slot is in use: the dispatcher waits for one.
    waits_for_slot: bool,
}

impl Default for Round {
    fn default() -> Self {
        Self { at: Instant::now(), error: None, waits_for_slot: false }
    }
}

impl Liveness {
    /// The heartbeat begins a round.
    pub(crate) fn heartbeat_begins(&self) {
        self.heartbeat.lock().at = Instant::now();
    }

    /// The heartbeat has tried to renew the lease or to register.
    pub(crate) fn heartbeat_ended(&self, error: Option<String>) {
        *self.heartbeat.lock() = Round { error, ..Round::default() };
    }

    /// The dispatcher begins a round, and waits for a free slot first.
    pub(crate) fn dispatcher_begins(&self, waits_for_slot: bool) {
        let mut round = self.dispatcher.lock();
        round.at = Instant::now();
        round.waits_for_slot = waits_for_slot;
    }

    /// The dispatcher has claimed what there was.
    pub(crate) fn dispatcher_ended(&self, error: Option<String>) {
        *self.dispatcher.lock() = Round { error, ..Round::default() };
    }

    /// Why the last renewal or registration failed.
    pub(crate) fn lease_error(&self) -> Option<String> {
        self.heartbeat.lock().error.clone()
    }

    /// Why no actions are claimed, if that is so.
    pub(crate) fn check_dispatcher(&self, slots: u32) -> Result<(), String> {
        let round = self.dispatcher.lock();
        if let Some(error) = &round.error {
            return Err(format!("actions cannot be claimed: {error}"));
        }
        let age = round.at.elapsed();
        match (age > STALLED_AFTER, round.waits_for_slot) {
            (false, _) => Ok(()),
            (true, true) => Err(format!(
                "all {slots} slots have been in use for {} s: no other action can start",
                age.as_secs()
            )),
            (true, false) => Err(format!("the dispatcher has not looked for work for {} s", age.as_secs())),
        }
    }

    /// Whether the engine is dead: nothing but a restart helps.
    pub(crate) fn check_heartbeat(&self) -> Result<(), String> {
        let age = self.heartbeat.lock().at.elapsed();
        if age > DEAD_AFTER {
            return Err(format!("the engine's heartbeat stopped {} s ago", age.as_secs()));
        }
        Ok(())
    }
}
