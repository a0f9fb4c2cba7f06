//! The outcome of one suite.

/// The counts of a suite, with failures and notes.
#[derive(Debug, Default)]
pub(super) struct SuiteOutcome {
    pub(super) passed: u32,
    pub(super) failed: u32,
    /// The names of failed tests.
    pub(super) failures: Vec<String>,
    pub(super) skips: Vec<Skip>,
    /// The messages of failures that are not those of tests.
    pub(super) errors: Vec<String>,
    /// The messages about parts that could not be checked.
    pub(super) notes: Vec<String>,
}

impl SuiteOutcome {
    /// The outcome of a passed check, which counts as one test.
    pub(super) fn check() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    /// The outcome of a passed check, with a note about parts that could not be checked.
    pub(super) fn check_with_note(note: Option<String>) -> Self {
        Self { notes: note.into_iter().collect(), ..Self::check() }
    }

    pub(super) fn failed(error: &anyhow::Error) -> Self {
        let mut outcome = Self::default();
        outcome.fail(format!("{error:#}"));
        outcome
    }

    /// Adds a failure that is not that of a test.
    pub(super) fn fail(&mut self, error: String) {
        eprintln!("error: {error}");
        self.failed += 1;
        self.errors.push(error);
    }

    /// Adds skipped tests, which the harness reports as passed.
    pub(super) fn skip(&mut self, skips: Vec<Skip>) {
        self.passed = self.passed.saturating_sub(u32::try_from(skips.len()).unwrap_or(u32::MAX));
        self.skips.extend(skips);
    }

    pub(super) fn skipped(&self) -> u32 {
        u32::try_from(self.skips.len()).unwrap_or(u32::MAX)
    }

    /// Returns true if no test was run.
    pub(super) fn is_empty(&self) -> bool {
        self.passed + self.failed + self.skipped() == 0
    }
}

/// A test that did not run, with the reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Skip {
    pub(super) test: String,
    pub(super) reason: String,
}

/// Parses the file of skipped tests, whose lines have a name, a tab and a reason.
pub(super) fn skips(text: &str) -> Vec<Skip> {
    let parse = |line: &str| {
        let (test, reason) = line.split_once('\t')?;
        Some(Skip { test: test.to_owned(), reason: reason.to_owned() })
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_read_with_their_reasons() {
        let read = skips("a_pod_runs\tneeds Go\nhalf a line\n");
        assert_eq!(read, [Skip { test: "a_pod_runs".into(), reason: "needs Go".into() }]);
    }
}
