//! The processes of a node, from the start of the first to the end of the last.

use std::time::Duration;

use muster_engine::ports::clock::{Clock as _, SystemClock};
use rustix::process::Signal;
use tokio::time::Instant;

use crate::shim::lock::Lock;
use crate::shim::memory::OomKills;
use crate::shim::state::{Asker, End, Ending, State, Stopped};
use crate::shim::wire::{Answer, Request, Status, Stop};
use crate::sys;

/// How often is looked for processes that were killed and are still there. Their ends are told; this is for those
/// that were born in between.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Longer than anybody waits, and short enough to be added to any time.
const LONGEST_GRACE: Duration = Duration::from_hours(365 * 24);

/// A node's processes, and what was asked of them.
#[derive(Debug)]
pub(super) struct Node {
    /// The process that is the node: its end is the node's.
    child: i32,
    ended: Option<Ending>,
    stop: Option<Stopping>,
    look_at: Option<Instant>,
    lock: Lock,
    state: State,
}

#[derive(Debug)]
struct Stopping {
    asked: Stopped,
    /// None once everything was killed.
    deadline: Option<Instant>,
}

impl Node {
    pub(super) fn new(child: i32, lock: Lock, state: State) -> Self {
        Self { child, ended: None, stop: None, look_at: None, lock, state }
    }

    pub(super) const fn state(&self) -> &State {
        &self.state
    }

    /// Does what is asked for, unless somebody with a higher generation was here before.
    pub(super) fn answer(&mut self, request: &Request) -> Answer {
        let generation = match *request {
            Request::Status => self.lock.highest(),
            Request::Adopt { generation } | Request::Stop { generation, .. } => generation,
        };
        let written = match self.lock.raise(generation) {
            Ok(written) => written,
            Err(refused) => return Answer::Refused { highest: refused.highest },
        };
        match *request {
            // A stop is obeyed all the same: a disk that fails must not keep a node alive.
            Request::Stop { grace_ms, signal, .. } => {
                self.stop(Stop { signal, grace: Duration::from_millis(grace_ms) }, Asker::Command);
            }
            Request::Status => {}
            Request::Adopt { .. } => {
                if let Err(error) = written {
                    return Answer::Failed {
                        message: format!("the generation cannot be written down: {error}"),
                    };
                }
            }
        }
        let stopping = self.stop.is_some() || self.ended.is_some();
        Answer::Status(Box::new(Status { state: self.state.clone(), highest: self.lock.highest(), stopping }))
    }

    /// Asks the node to end. Asked again it may get less time, never more, and is not signalled twice with the same.
    pub(super) fn stop(&mut self, stop: Stop, by: Asker) {
        if self.ended.is_some() {
            return;
        }
        let deadline = Instant::now() + stop.grace.min(LONGEST_GRACE);
        let repeated = match &mut self.stop {
            Some(Stopping { deadline: None, .. }) => return,
            Some(Stopping { asked, deadline: Some(earlier) }) => {
                *earlier = deadline.min(*earlier);
                asked.signal == stop.signal
            }
            None => {
                let asked = Stopped { by, signal: stop.signal, killed: false };
                self.stop = Some(Stopping { asked, deadline: Some(deadline) });
                false
            }
        };
        if !repeated {
            if let Some(Stopping { asked, .. }) = &mut self.stop {
                asked.signal = stop.signal;
            }
            sys::signal_group(self.child, stop.signal.signal());
        }
    }

    /// Kills the node's process; whatever it leaves behind follows.
    pub(super) fn kill(&mut self) {
        if self.ended.is_none() {
            sys::signal_group(self.child, Signal::KILL);
        }
    }

    /// When to look without being told.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.look_at.or_else(|| self.stop.as_ref().and_then(|stop| stop.deadline))
    }

    /// The grace is over: everything is killed, if that was not done before.
    pub(super) fn time_is_up(&mut self) {
        let Some(stop) = &mut self.stop else { return };
        if self.ended.is_none() && stop.deadline.is_none_or(|deadline| deadline <= Instant::now()) {
            stop.deadline = None;
            stop.asked.killed = true;
            sys::signal_group(self.child, Signal::KILL);
        }
    }

    /// Looks who has ended, and ends what the node leaves behind. True once nothing is left.
    pub(super) fn look(&mut self) -> bool {
        if self.ended.is_none() && sys::has_ended(self.child) {
            // While it is not reaped its number, and so its group's, is nobody else's.
            sys::signal_group(self.child, Signal::KILL);
            self.ended = sys::reap(self.child).map(|status| match status.terminating_signal() {
                Some(signal) => Ending::Signaled { signal },
                None => Ending::Exited { code: status.exit_status().unwrap_or_default() },
            });
        }
        if self.ended.is_some() {
            self.look_at = Some(Instant::now() + LOOK_AGAIN);
            sys::children().into_iter().for_each(sys::kill_child);
            // Whoever is killed leaves its children to us, so that none is out of reach for long.
            return sys::reap_all();
        }
        for orphan in sys::children().into_iter().filter(|pid| *pid != self.child) {
            sys::reap(orphan);
        }
        false
    }

    /// How it ended, once nothing is left of it.
    pub(super) fn into_ended(self, oom_kills: OomKills) -> State {
        let stopped = self.stop.map(|stop| stop.asked);
        let end = self.ended.map(|how| End { how, at: SystemClock.now(), stopped, oom_kills });
        State { end, ..self.state }
    }
}
