//! Runs the command, forwards signals to it, and reports how it ended.

use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::{Either, select};
use muster_core::ephemeral::AppStatus;
use muster_local::attached::GroupGuard;
use rustix::process::{Pid, Signal as Number, kill_process, kill_process_group};
use tokio::process::Child;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::Launcher;
use crate::output::message;

/// Time within which a command has to end after a signal before it is killed.
const KILL_AFTER: Duration = Duration::from_secs(10);

/// A signal that asks a launcher to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndSignal {
    Interrupt,
    Terminate,
}

impl EndSignal {
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }

    const fn signal(self) -> Number {
        match self {
            Self::Interrupt => Number::INT,
            Self::Terminate => Number::TERM,
        }
    }
}

/// Receives the signals that ask a launcher to end.
pub(super) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl EndSignals {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub(super) async fn next(&mut self) -> EndSignal {
        tokio::select! {
            _ = self.interrupt.recv() => EndSignal::Interrupt,
            _ = self.terminate.recv() => EndSignal::Terminate,
        }
    }
}

/// Returns true if the command gets a process group of its own. On a terminal it shares the launcher's group: otherwise
/// it could not read from the terminal. Ctrl-C then reaches both.
pub(super) fn has_own_group() -> bool {
    !std::io::stdin().is_terminal()
}

/// The end of a command.
pub(super) struct EndedCommand {
    pub(super) status: AppStatus,
    pub(super) code: i32,
}

impl EndedCommand {
    pub(super) const fn was_interrupted(&self) -> bool {
        matches!(self.status, AppStatus::Terminated)
    }

    /// Returns the exit status that the launcher passes on.
    pub(super) fn exit_status(&self) -> u8 {
        u8::try_from(self.code).unwrap_or(1)
    }
}

/// Returns the exit status of a command: 128 + n for signal n, as in shells.
fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

impl Launcher {
    /// Runs the command until it has ended, and forwards signals to it.
    pub(super) async fn follow(
        &mut self,
        command: Command,
        signals: &mut EndSignals,
    ) -> Result<EndedCommand> {
        let running = Running::start(command)?;
        let pid = running.child.id();
        let handed_over = pin!(async {
            if let Some(pid) = pid {
                self.hand_over(pid).await;
            }
        });
        // The server may not answer for a minute: signals are forwarded meanwhile.
        match select(pin!(running.supervise(signals)), handed_over).await {
            Either::Left((ended, _)) => ended,
            Either::Right(((), supervised)) => supervised.await,
        }
    }
}

/// A command that was started.
struct Running {
    child: Child,
    leader: Option<Pid>,
    own_group: bool,
    guard: Option<GroupGuard>,
}

impl Running {
    fn start(command: Command) -> Result<Self> {
        let child = tokio::process::Command::from(command).spawn().context("cannot start the command")?;
        let pid = child.id();
        let leader = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let mut running = Self { child, leader, own_group: has_own_group(), guard: None };
        match pid.filter(|_| running.own_group).map(GroupGuard::start).transpose() {
            Ok(guard) => running.guard = guard,
            Err(error) => {
                running.send(Number::KILL);
                return Err(error).context("the command was killed: its guard cannot be started");
            }
        }
        Ok(running)
    }

    fn send(&self, signal: Number) {
        // Fails if the process has ended, which is fine.
        let _ = match self.leader {
            Some(leader) if self.own_group => kill_process_group(leader, signal),
            Some(leader) => kill_process(leader, signal),
            None => Ok(()),
        };
    }

    /// Waits for the end of the command, and forwards signals to it.
    async fn supervise(mut self, signals: &mut EndSignals) -> Result<EndedCommand> {
        let mut killed_at = None;
        let mut status = AppStatus::Completed;
        let ended = loop {
            let patience = async {
                match killed_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = self.child.wait() => break ended?,
                ending = signals.next() => {
                    if status == AppStatus::Terminated && ending == EndSignal::Interrupt {
                        self.send(Number::KILL);
                        continue;
                    }
                    message!("Received a termination signal");
                    status = AppStatus::Terminated;
                    if self.own_group || ending == EndSignal::Terminate {
                        self.send(ending.signal());
                    }
                    killed_at.get_or_insert_with(|| Instant::now() + KILL_AFTER);
                }
                () = patience => {
                    message!("Process is still running {} seconds after TERM, sending KILL", KILL_AFTER.as_secs());
                    self.send(Number::KILL);
                    killed_at = Some(Instant::now() + KILL_AFTER);
                }
            }
        };
        if status == AppStatus::Terminated {
            if self.own_group {
                // Kill what the command left behind in its group.
                self.send(Number::KILL);
            }
            message!("Subprocess stopped");
        }
        if let Some(guard) = self.guard {
            guard.dismiss();
        }
        Ok(EndedCommand { status, code: code(ended) })
    }
}
