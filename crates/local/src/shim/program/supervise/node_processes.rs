//! The processes of a node, from the start of the command to the end of its last descendant.

use std::time::Duration;

use muster_engine::ports::clock::{Clock as _, SystemClock};
use rustix::process::Signal;
use tokio::time::Instant;

use crate::shim::lock::NodeLock;
use crate::shim::oom_kills::OomKills;
use crate::shim::state::{ExitCause, NodeExit, ShimState, StopOrigin, StopRecord};
use crate::shim::wire::{ShimReply, ShimRequest, ShimStatus, StopSpec};
use crate::sys;

/// Interval of checks for processes that remain after the command has ended. Exits are notified by a signal; the
/// interval covers processes that were forked while the others were killed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Longest grace period, which can be added to any time without overflow.
const MAX_GRACE: Duration = Duration::from_hours(365 * 24);

/// The processes of a node, and its stop request.
#[derive(Debug)]
pub(super) struct NodeProcesses {
    /// The process of the command; when it ends, the node ends.
    child: i32,
    ended: Option<ExitCause>,
    stop: Option<Stopping>,
    check_at: Option<Instant>,
    lock: NodeLock,
    state: ShimState,
}

#[derive(Debug)]
struct Stopping {
    record: StopRecord,
    /// The time at which the processes are killed; none after that.
    deadline: Option<Instant>,
}

impl NodeProcesses {
    pub(super) fn new(child: i32, lock: NodeLock, state: ShimState) -> Self {
        Self { child, ended: None, stop: None, check_at: None, lock, state }
    }

    pub(super) const fn state(&self) -> &ShimState {
        &self.state
    }

    /// Executes a request, unless the node has seen a higher generation.
    pub(super) fn handle_request(&mut self, request: &ShimRequest) -> ShimReply {
        let generation = match *request {
            ShimRequest::Status => self.lock.highest(),
            ShimRequest::Adopt { generation } | ShimRequest::Stop { generation, .. } => generation,
        };
        let written = match self.lock.raise(generation) {
            Ok(written) => written,
            Err(refused) => return ShimReply::Refused { highest: refused.highest },
        };
        match *request {
            // A stop is executed even if the generation cannot be recorded: a failing disk must not keep a node alive.
            ShimRequest::Stop { grace_ms, signal, .. } => {
                self.stop(StopSpec { signal, grace: Duration::from_millis(grace_ms) }, StopOrigin::Command);
            }
            ShimRequest::Status => {}
            ShimRequest::Adopt { .. } => {
                if let Err(error) = written {
                    return ShimReply::Failed {
                        message: format!("the generation cannot be recorded: {error}"),
                    };
                }
            }
        }
        let stopping = self.stop.is_some() || self.ended.is_some();
        ShimReply::Status(Box::new(ShimStatus {
            state: self.state.clone(),
            highest: self.lock.highest(),
            stopping,
        }))
    }

    /// Signals the node to end. A repeated stop can shorten the grace period but not extend it, and the same signal is
    /// not sent twice.
    pub(super) fn stop(&mut self, stop: StopSpec, by: StopOrigin) {
        if self.ended.is_some() {
            return;
        }
        let deadline = Instant::now() + stop.grace.min(MAX_GRACE);
        let repeated = match &mut self.stop {
            Some(Stopping { deadline: None, .. }) => return,
            Some(Stopping { record, deadline: Some(earlier) }) => {
                *earlier = deadline.min(*earlier);
                record.signal == stop.signal
            }
            None => {
                let record = StopRecord { by, signal: stop.signal, killed: false };
                self.stop = Some(Stopping { record, deadline: Some(deadline) });
                false
            }
        };
        if !repeated {
            if let Some(Stopping { record, .. }) = &mut self.stop {
                record.signal = stop.signal;
            }
            sys::signal_group(self.child, stop.signal.signal());
        }
    }

    /// Kills the process group of the command; `reap` then ends its remaining descendants.
    pub(super) fn kill(&mut self) {
        if self.ended.is_none() {
            sys::signal_group(self.child, Signal::KILL);
        }
    }

    /// Returns the time of the next check or kill, if no signal arrives before.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.check_at.or_else(|| self.stop.as_ref().and_then(|stop| stop.deadline))
    }

    /// Kills the process group once the grace period is over.
    pub(super) fn kill_after_grace(&mut self) {
        let Some(stop) = &mut self.stop else { return };
        if self.ended.is_none() && stop.deadline.is_none_or(|deadline| deadline <= Instant::now()) {
            stop.deadline = None;
            stop.record.killed = true;
            sys::signal_group(self.child, Signal::KILL);
        }
    }

    /// Reaps processes that have ended. Once the command has ended, kills its descendants. Returns true when none is
    /// left.
    pub(super) fn reap(&mut self) -> bool {
        if self.ended.is_none() && sys::has_ended(self.child) {
            // Signals before reaping: afterwards the number of the process group could be reused.
            sys::signal_group(self.child, Signal::KILL);
            self.ended = sys::reap(self.child).map(|status| match status.terminating_signal() {
                Some(signal) => ExitCause::Signaled { signal },
                None => ExitCause::Exited { code: status.exit_status().unwrap_or_default() },
            });
        }
        if self.ended.is_some() {
            self.check_at = Some(Instant::now() + POLL_INTERVAL);
            sys::children().into_iter().for_each(sys::kill_child);
            // Children of killed processes become children of the shim, and are killed by the next check.
            return sys::reap_all();
        }
        for orphan in sys::children().into_iter().filter(|pid| *pid != self.child) {
            sys::reap(orphan);
        }
        false
    }

    /// Returns the final state, once no process is left.
    pub(super) fn into_final_state(self, oom_kills: OomKills) -> ShimState {
        let stopped = self.stop.map(|stop| stop.record);
        let end = self.ended.map(|how| NodeExit { how, at: SystemClock.now(), stopped, oom_kills });
        ShimState { end, ..self.state }
    }
}
