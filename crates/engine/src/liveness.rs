//! Records the rounds of the engine's own loops, for the readiness and liveness probes of the server.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The age of the dispatcher's last round from which it counts as stalled.
const STALLED_AFTER: Duration = Duration::from_secs(15);

/// The age of the heartbeat's last round from which it counts as dead: none of its calls takes that long.
const DEAD_AFTER: Duration = Duration::from_secs(90);

/// The last round of each loop of an engine.
#[derive(Default)]
pub(crate) struct Liveness {
    heartbeat: Mutex<Round>,
    dispatcher: Mutex<Round>,
}

struct Round {
    at: Instant,
    error: Option<String>,
    /// True if every slot is in use, so that the dispatcher waits for one.
    waits_for_slot: bool,
}

impl Default for Round {
    fn default() -> Self {
        Self { at: Instant::now(), error: None, waits_for_slot: false }
    }
}

impl Liveness {
    /// Records that the heartbeat begins a round.
    pub(crate) fn heartbeat_begins(&self) {
        self.heartbeat.lock().at = Instant::now();
    }

    /// Records the result of an attempt to renew the lease or to register.
    pub(crate) fn heartbeat_ended(&self, error: Option<String>) {
        *self.heartbeat.lock() = Round { error, ..Round::default() };
    }

    /// Records that the dispatcher begins a round, and whether no slot is free for it.
    pub(crate) fn dispatcher_begins(&self, waits_for_slot: bool) {
        let mut round = self.dispatcher.lock();
        round.at = Instant::now();
        round.waits_for_slot = waits_for_slot;
    }

    /// Records the result of a claim.
    pub(crate) fn dispatcher_ended(&self, error: Option<String>) {
        *self.dispatcher.lock() = Round { error, ..Round::default() };
    }

    /// Returns the error of the last renewal or registration, if it failed.
    pub(crate) fn lease_error(&self) -> Option<String> {
        self.heartbeat.lock().error.clone()
    }

    /// Returns an error with the reason if the dispatcher claims no actions.
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
            (true, false) => {
                Err(format!("the dispatcher has not polled for actions for {} s", age.as_secs()))
            }
        }
    }

    /// Returns an error if the heartbeat has stopped: only a restart of the process repairs that.
    pub(crate) fn check_heartbeat(&self) -> Result<(), String> {
        let age = self.heartbeat.lock().at.elapsed();
        if age > DEAD_AFTER {
            return Err(format!("the engine's heartbeat stopped {} s ago", age.as_secs()));
        }
        Ok(())
    }
}
