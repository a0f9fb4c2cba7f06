//! The state of a node, which its shim records in `state.json`.

use std::fmt;
use std::path::PathBuf;

use muster_core::action::Fence;
use muster_core::ids::NodeId;
use muster_core::job::signal_name;
use muster_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::oom_kills::OomKills;
use super::wire::StopSignal;
use crate::sys::ProcessId;

/// The content of `state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimState {
    /// The id of the node.
    pub node: NodeId,
    /// The generation that started the node.
    pub generation: Fence,
    /// The boot in which the node was started.
    pub boot_id: String,
    /// The shim's process.
    pub shim: ProcessId,
    /// The process of the command; none before it was started.
    pub child: Option<ProcessId>,
    /// The socket of the shim.
    pub socket: PathBuf,
    /// The time of the start.
    pub started_at: Timestamp,
    /// The end of the node; none while it runs.
    pub end: Option<NodeExit>,
}

/// The end of a node, as its shim recorded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeExit {
    /// The cause of the end.
    pub how: ExitCause,
    /// The time of the end.
    pub at: Timestamp,
    /// The stop request before the end, if any.
    pub stopped: Option<StopRecord>,
    /// Kills for lack of memory while the node ran.
    pub oom_kills: OomKills,
}

/// The cause of a process's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitCause {
    /// The process exited.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// A signal killed the process.
    Signaled {
        /// The number of the signal.
        signal: i32,
    },
    /// The command could not be executed.
    NotStarted {
        /// The exit code that shells use: 127 if there is no such command, 126 if it cannot be executed.
        code: i32,
        /// The reason.
        message: String,
    },
}

/// A stop request, as recorded with the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRecord {
    /// The origin of the request.
    pub by: StopOrigin,
    /// The signal that was sent.
    pub signal: StopSignal,
    /// True if the node did not end within the grace period, and was killed.
    pub killed: bool,
}

/// The origin of a stop request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopOrigin {
    /// A request of the server.
    Command,
    /// A signal to the shim, as sent when the machine shuts down.
    Signal,
}

impl NodeExit {
    /// Returns true if this end follows from a stop request. Frameworks then exit with 0 or 1, or die of the signal
    /// that was sent.
    pub fn is_clean(&self) -> bool {
        let Some(StopRecord { signal, killed: false, .. }) = self.stopped else { return false };
        let asked = signal.number();
        match self.how {
            ExitCause::Exited { code } => code == 0 || code == 1 || code == 128 + asked,
            ExitCause::Signaled { signal } => signal == asked,
            ExitCause::NotStarted { .. } => false,
        }
    }
}

/// The text of events and status reasons; the subject is the node.
impl fmt::Display for NodeExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.how {
            ExitCause::Exited { code } => write!(f, "exited with code {code}")?,
            ExitCause::Signaled { signal } => {
                write!(f, "was ended by signal {signal}{}", signal_name(*signal))?;
            }
            ExitCause::NotStarted { message, .. } => return f.write_str(message),
        }
        match (&self.how, self.stopped, self.oom_kills) {
            (_, Some(StopRecord { killed: true, .. }), _) => f.write_str(" because it did not stop in time"),
            (_, Some(StopRecord { by: StopOrigin::Command, .. }), _) => {
                f.write_str(" when it was asked to stop")
            }
            (_, Some(StopRecord { by: StopOrigin::Signal, .. }), _) => {
                f.write_str(" when a signal asked its supervisor to stop")
            }
            (ExitCause::Signaled { signal: 9 }, None, OomKills::Rose) => {
                f.write_str(", possibly because memory ran out (the kernel's counter of such kills rose)")
            }
            (ExitCause::Signaled { signal: 9 }, None, OomKills::Unreadable) => {
                f.write_str(", possibly because memory ran out (the kernel's counter cannot be read)")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn end(how: ExitCause, stopped: Option<StopRecord>, oom_kills: OomKills) -> NodeExit {
        NodeExit { how, at: Timestamp::default(), stopped, oom_kills }
    }

    fn stopped(signal: StopSignal, killed: bool) -> StopRecord {
        StopRecord { by: StopOrigin::Command, signal, killed }
    }

    #[rstest]
    #[case(ExitCause::Exited { code: 0 }, Some(stopped(StopSignal::Term, false)), true)]
    #[case(ExitCause::Exited { code: 1 }, Some(stopped(StopSignal::Term, false)), true)]
    #[case(ExitCause::Exited { code: 143 }, Some(stopped(StopSignal::Term, false)), true)]
    #[case(ExitCause::Signaled { signal: 15 }, Some(stopped(StopSignal::Term, false)), true)]
    #[case(ExitCause::Signaled { signal: 2 }, Some(stopped(StopSignal::Int, false)), true)]
    #[case(ExitCause::Exited { code: 3 }, Some(stopped(StopSignal::Term, false)), false)]
    #[case(ExitCause::Signaled { signal: 9 }, Some(stopped(StopSignal::Term, true)), false)]
    #[case(ExitCause::Exited { code: 0 }, None, false)]
    fn an_end_is_clean_if_it_was_requested(
        #[case] how: ExitCause,
        #[case] stopped: Option<StopRecord>,
        #[case] clean: bool,
    ) {
        assert_eq!(end(how, stopped, OomKills::Same).is_clean(), clean);
    }

    #[rstest]
    #[case(ExitCause::Exited { code: 3 }, None, OomKills::Rose, "exited with code 3")]
    #[case(ExitCause::Signaled { signal: 9 }, None, OomKills::Same, "was ended by signal 9 (SIGKILL)")]
    #[case(
        ExitCause::Signaled { signal: 9 },
        None,
        OomKills::Rose,
        "was ended by signal 9 (SIGKILL), possibly because memory ran out (the kernel's counter of such kills rose)"
    )]
    #[case(
        ExitCause::Signaled { signal: 9 },
        Some(stopped(StopSignal::Term, true)),
        OomKills::Same,
        "was ended by signal 9 (SIGKILL) because it did not stop in time"
    )]
    #[case(
        ExitCause::NotStarted { code: 127, message: "there is no command 'x'".to_owned() },
        None,
        OomKills::Same,
        "there is no command 'x'"
    )]
    fn an_end_is_described(
        #[case] how: ExitCause,
        #[case] stopped: Option<StopRecord>,
        #[case] oom: OomKills,
        #[case] text: &str,
    ) {
        assert_eq!(end(how, stopped, oom).to_string(), text);
    }
}
