//! Printing: results on standard output, messages and progress on standard error, and the exit code.

use std::fmt;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::Failure;

/// Prints to standard output. A closed pipe ends the command without a panic.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Asks on the terminal; any answer but y or yes is a no.
pub(crate) fn confirm(question: &str) -> std::io::Result<bool> {
    let mut errors = std::io::stderr();
    write!(errors, "{question} [y/N] ")?;
    errors.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Writes a line to standard error. Write errors are ignored: the exit code still reports the result.
pub(crate) fn write_message(what: fmt::Arguments<'_>) {
    drop(writeln!(std::io::stderr(), "{what}"));
}

/// Prints a message to standard error; unlike `eprintln!` without a panic if that is closed.
macro_rules! message {
    ($($words:tt)+) => { $crate::output::write_message(format_args!($($words)+)) };
}

pub(crate) use message;

/// Replaces control characters: a log line must not move the terminal's cursor or change its title.
pub(crate) fn harmless(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && !matches!(letter, '\n' | '\t'), " ")
}

/// Refresh interval of a spinner.
const TICK: Duration = Duration::from_millis(100);

/// Progress on standard error: one changing line on a terminal, one line per change in a pipe.
pub(crate) struct Spinner {
    bar: Option<ProgressBar>,
    is_hidden: bool,
}

impl Spinner {
    /// Creates a spinner; in a pipe the first line appears at the first change.
    pub(crate) fn new(line: String) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_message(line);
            // An invalid template leaves the default one, without the elapsed time.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar, is_hidden: false }
    }

    /// Creates a spinner that shows nothing.
    pub(crate) const fn hidden() -> Self {
        Self { bar: None, is_hidden: true }
    }

    pub(crate) fn show(&self, line: String) {
        match &self.bar {
            _ if self.is_hidden => {}
            Some(bar) => bar.set_message(line),
            None => message!("{line}"),
        }
    }

    /// Shows a line with the elapsed time, which a terminal counts itself.
    pub(crate) fn show_at(&self, line: String, elapsed: Duration) {
        match &self.bar {
            Some(bar) if !self.is_hidden => bar.set_message(line),
            _ => self.show(format!("{line} ({} s)", elapsed.as_secs())),
        }
    }

    /// Prints a line that stays above the spinner.
    pub(crate) fn print_line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => message!("{text}"),
        }
    }
}

impl Drop for Spinner {
    /// Clears the spinner's line.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns the exit code of a command, and prints its error with causes and hint.
pub(crate) fn exit(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        message!("error: {}", harmless(&format!("{error:#}")));
        error.downcast_ref::<Failure>().map_or(ExitCode::FAILURE, |failure| failure.exit.into())
    })
}

/// Runs a command that calls a server, and returns its exit code.
pub(crate) fn run(command: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    exit(runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_log_lines_are_removed() {
        assert_eq!(harmless("one\n\ttwo \x1b[31mred\x07\u{9b}2J"), "one\n\ttwo  [31mred  2J");
    }
}
