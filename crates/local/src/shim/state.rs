//! How a node is, as its shim writes it down.

use std::fmt;
use std::path::PathBuf;

use muster_core::action::Fence;
use muster_core::ids::NodeId;
use muster_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::memory::OomKills;
use super::wire::StopSignal;
use crate::sys::ProcessId;

/// What `state.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The node.
    pub node: NodeId,
    /// The generation that started it.
    pub generation: Fence,
    /// The boot of the machine in which that was.
    pub boot_id: String,
    /// Its shim.
    pub shim: ProcessId,
    /// Its process; none until it was started.
    pub child: Option<ProcessId>,
    /// Where its shim listens.
    pub socket: PathBuf,
    /// When it was started.
    pub started_at: Timestamp,
    /// How it ended, once it has.
    pub end: Option<End>,
}

/// How a node ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// How its process ended.
    pub how: Ending,
    /// When.
    pub at: Timestamp,
    /// The stop that was asked for before, if any.
    pub stopped: Option<Stopped>,
    /// Whether the kernel killed for want of memory meanwhile.
    pub oom_kills: OomKills,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// By itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// By a signal.
    Signaled {
        /// Its number.
        signal: i32,
    },
    /// It never began.
    NotStarted {
        /// As shells number it: 127 if there is no such command, 126 if it cannot be run.
        code: i32,
        /// Why.
        message: String,
    },
}

/// A stop that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// Who asked.
    pub by: Asker,
    /// What it was asked with.
    pub signal: StopSignal,
    /// It did not end within the grace and was killed.
    pub killed: bool,
}

/// Who asked for a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asker {
    /// The server, by a command.
    Command,
    /// Somebody who sent the shim a signal, as a machine does that shuts down.
    Signal,
}

impl End {
    /// Whether it is what a stop that was asked for looks like: frameworks leave with 0, 1, or the signal they were
    /// asked with.
    pub fn is_clean(&self) -> bool {
        let Some(Stopped { signal, killed: false, .. }) = self.stopped else { return false };
        let asked = signal.number();
        match self.how {
            Ending::Exited { code } => code == 0 || code == 1 || code == 128 + asked,
            Ending::Signaled { signal } => signal == asked,
            Ending::NotStarted { .. } => false,
        }
    }
}

/// In words, as they stand in events and reasons.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.how {
            Ending::Exited { code } => write!(f, "exited with code {code}")?,
            Ending::Signaled { signal } => {
                write!(f, "was ended by signal {signal}{}", signal_name(*signal))?;
            }
            Ending::NotStarted { message, .. } => return f.write_str(message),
        }
        match (&self.how, self.stopped, self.oom_kills) {
            (_, Some(Stopped { killed: true, .. }), _) => f.write_str(" because it did not stop in time"),
            (_, Some(Stopped { by: Asker::Command, .. }), _) => f.write_str(" when it was asked to stop"),
            (_, Some(Stopped { by: Asker::Signal, .. }), _) => {
                f.write_str(" when a signal asked its supervisor to stop")
            }
            (Ending::Signaled { signal: 9 }, None, OomKills::Rose) => {
                f.write_str(", possibly because memory ran out (the kernel's counter of such kills rose)")
            }
            (Ending::Signaled { signal: 9 }, None, OomKills::Unreadable) => {
                f.write_str(", possibly because memory ran out (the kernel's counter cannot be read)")
            }
            _ => Ok(()),
        }
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn end(how: Ending, stopped: Option<Stopped>, oom_kills: OomKills) -> End {
        End { how, at: Timestamp::default(), stopped, oom_kills }
    }

    fn stopped(signal: StopSignal, killed: bool) -> Stopped {
        Stopped { by: Asker::Command, signal, killed }
    }

    #[rstest]
    #[case(Ending::Exited { code: 0 }, Some(stopped(StopSignal::Term, false)), true)]
    #[case(Ending::Exited { code: 1 }, Some(stopped(StopSignal::Term, false)), true)]
    #[case(Ending::Exited { code: 143 }, Some(stopped(StopSignal::Term, false)), true)]
    #[case(Ending::Signaled { signal: 15 }, Some(stopped(StopSignal::Term, false)), true)]
    #[case(Ending::Signaled { signal: 2 }, Some(stopped(StopSignal::Int, false)), true)]
    #[case(Ending::Exited { code: 3 }, Some(stopped(StopSignal::Term, false)), false)]
    #[case(Ending::Signaled { signal: 9 }, Some(stopped(StopSignal::Term, true)), false)]
    #[case(Ending::Exited { code: 0 }, None, false)]
    fn an_end_is_clean_if_it_was_asked_for(
        #[case] how: Ending,
        #[case] stopped: Option<Stopped>,
        #[case] clean: bool,
    ) {
        assert_eq!(end(how, stopped, OomKills::Same).is_clean(), clean);
    }

    #[rstest]
    #[case(Ending::Exited { code: 3 }, None, OomKills::Rose, "exited with code 3")]
    #[case(Ending::Signaled { signal: 9 }, None, OomKills::Same, "was ended by signal 9 (SIGKILL)")]
    #[case(
        Ending::Signaled { signal: 9 },
        None,
        OomKills::Rose,
        "was ended by signal 9 (SIGKILL), possibly because memory ran out (the kernel's counter of such kills rose)"
    )]
    #[case(
        Ending::Signaled { signal: 9 },
        Some(stopped(StopSignal::Term, true)),
        OomKills::Same,
        "was ended by signal 9 (SIGKILL) because it did not stop in time"
    )]
    #[case(
        Ending::NotStarted { code: 127, message: "there is no command 'x'".to_owned() },
        None,
        OomKills::Same,
        "there is no command 'x'"
    )]
    fn an_end_is_told_in_words(
        #[case] how: Ending,
        #[case] stopped: Option<Stopped>,
        #[case] oom: OomKills,
        #[case] words: &str,
    ) {
        assert_eq!(end(how, stopped, oom).to_string(), words);
    }
}
