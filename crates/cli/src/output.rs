//! What commands print, and how they end.

use std::fmt;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::failure::Failure;

/// Prints to standard output; a closed pipe is no reason to panic.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Says something on standard error; if not even that can be written, the exit code has to do.
pub(crate) fn tell(what: fmt::Arguments<'_>) {
    drop(writeln!(std::io::stderr(), "{what}"));
}

/// Says something on standard error, as `eprintln!` does where that is open.
macro_rules! say {
    ($($words:tt)+) => { $crate::output::tell(format_args!($($words)+)) };
}

pub(crate) use say;

/// Text of others for a terminal: a log line may hold what would move its cursor or change its title.
pub(crate) fn harmless(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && !matches!(letter, '\n' | '\t'), " ")
}

/// How often a spinner turns.
const TURN: Duration = Duration::from_millis(100);

/// How far something is: one changing line on a terminal, a line a change in a pipe; on standard error.
pub(crate) struct Spinner {
    bar: Option<ProgressBar>,
    is_hidden: bool,
}

impl Spinner {
    /// A pipe is told nothing before the first change.
    pub(crate) fn new(line: String) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_message(line);
            bar.enable_steady_tick(TURN);
            bar
        });
        Self { bar, is_hidden: false }
    }

    /// One that shows nothing.
    pub(crate) const fn hidden() -> Self {
        Self { bar: None, is_hidden: true }
    }

    pub(crate) fn show(&self, line: String) {
        match &self.bar {
            _ if self.is_hidden => {}
            Some(bar) => bar.set_message(line),
            None => say!("{line}"),
        }
    }

    /// Something that stays.
    pub(crate) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => say!("{text}"),
        }
    }
}

impl Drop for Spinner {
    /// Leaves the terminal as it was.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The exit code of a command; an error is told on standard error, with its causes and what to do.
pub(crate) fn exit(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        say!("error: {}", harmless(&format!("{error:#}")));
        error.downcast_ref::<Failure>().map_or(ExitCode::FAILURE, |failure| failure.exit.into())
    })
}

/// Runs a command that speaks to a server, and says how it ended.
pub(crate) fn run(command: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    exit(runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_cannot_paint_the_terminal() {
        assert_eq!(harmless("one\n\ttwo \x1b[31mred\x07\u{9b}2J"), "one\n\ttwo  [31mred  2J");
    }
}
