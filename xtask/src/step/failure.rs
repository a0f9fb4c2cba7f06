//! The failure of a step: a message, then the end of its log.

use std::fmt;
use std::path::Path;
use std::process::ExitStatus;

/// The number of lines of a failed step's log that are shown.
const TAIL: usize = 25;

/// The messages of programs that cannot reach the network.
const OFFLINE: &[&str] = &[
    "dial tcp",
    "no such host",
    "name resolution",
    "could not resolve",
    "temporary failure resolving",
    "network is unreachable",
    "connection refused",
    "connection timed out",
    "i/o timeout",
    "failed to establish a new connection",
    "module lookup disabled",
];

/// A step that ran and failed.
#[derive(Debug)]
pub(crate) struct StepFailure {
    sentence: String,
    log: String,
}

impl StepFailure {
    pub(super) fn new(what: &str, status: ExitStatus, log: &Path) -> Self {
        let log = std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Self { sentence: format!("{what} {}", describe(status)), log: log.unwrap_or_default() }
    }

    /// Adds an explanation to the message if the step could not fetch its packages `from` the network.
    pub(crate) fn needing(error: anyhow::Error, from: &str) -> anyhow::Error {
        match error.downcast::<Self>() {
            Ok(failure) if failure.was_offline() => {
                let sentence = format!("needs the network ({from}): {}", failure.sentence);
                Self { sentence, ..failure }.into()
            }
            Ok(failure) => failure.into(),
            Err(error) => error,
        }
    }

    fn was_offline(&self) -> bool {
        let log = self.log.to_lowercase();
        OFFLINE.iter().any(|words| log.contains(words))
    }
}

impl fmt::Display for StepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        let lines: Vec<&str> = self.log.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

impl std::error::Error for StepFailure {}

pub(super) fn describe(status: ExitStatus) -> String {
    status.code().map_or_else(|| format!("ended by {status}"), |code| format!("failed with exit code {code}"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rstest::rstest;

    use super::*;
    use crate::step;

    #[rstest]
    #[case(
        "dial tcp: lookup proxy.golang.org: no such host",
        "needs the network (Go modules): building kwok failed with exit code 3"
    )]
    #[case("undefined: x", "building kwok failed with exit code 3")]
    fn a_failure_says_first_what_it_needed_and_then_what_it_wrote(
        #[case] words: &str,
        #[case] sentence: &str,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = Command::new("sh");
        builder.args(["-c", &format!("echo '{words}'; exit 3")]);
        let error = step::run_quietly("building kwok", &mut builder, &folder.path().join("log")).unwrap_err();
        let error = StepFailure::needing(error, "Go modules").to_string();
        assert_eq!(error, format!("{sentence}\n    {words}"));
    }
}
