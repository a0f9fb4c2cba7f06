//! How suites ended, and the summary that closes a run.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// How one suite ended.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) passed: u32,
    pub(super) failed: u32,
    /// What the suite could not look at, in words.
    notes: Vec<String>,
    error: Option<String>,
}

impl Outcome {
    /// A check that went well counts as one test.
    pub(super) fn check() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    /// A check that went well as far as it could look.
    pub(super) fn check_with_note(note: Option<String>) -> Self {
        Self { notes: note.into_iter().collect(), ..Self::check() }
    }

    pub(super) fn failed(error: &anyhow::Error) -> Self {
        eprintln!("error: {error:#}");
        Self { failed: 1, error: Some(format!("{error:#}")), ..Self::default() }
    }
}

/// Runs a program of Rust's test harness, shows its output, and counts its results.
pub(super) fn of_tests(command: &mut Command) -> Result<Outcome> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start the tests")?;
    let output = child.stdout.take().context("the tests have no output")?;
    let mut outcome = Outcome::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        if let Some((passed, failed)) = counts(&line) {
            outcome.passed += passed;
            outcome.failed += failed;
        }
    }
    let status = child.wait()?;
    if !status.success() && outcome.failed == 0 {
        outcome.failed = 1;
        outcome.error = Some(format!("the test program ended with {status}"));
    }
    Ok(outcome)
}

/// The numbers of `test result: ok. 5 passed; 0 failed; 0 ignored; …`.
fn counts(line: &str) -> Option<(u32, u32)> {
    let rest = line.strip_prefix("test result: ")?;
    let number = |word: &str| {
        let before = rest.split(&format!(" {word}")).next()?;
        before.rsplit(' ').next()?.parse().ok()
    };
    Some((number("passed")?, number("failed")?))
}

/// All suites of a run.
#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<(String, Duration, Outcome)>,
}

impl Report {
    pub(super) fn add(&mut self, suite: String, took: Duration, outcome: Outcome) {
        self.rows.push((suite, took, outcome));
    }

    pub(super) fn passed(&self) -> bool {
        let count =
            |of: fn(&Outcome) -> u32| self.rows.iter().map(|(_, _, outcome)| of(outcome)).sum::<u32>();
        count(|outcome| outcome.failed) == 0 && count(|outcome| outcome.passed) > 0
    }

    /// Prints times, notes, skips, and as the very last line the counts.
    pub(super) fn print(&self, skips: &[Skip]) {
        println!("\nsuite                                  seconds  passed  failed");
        for (suite, took, outcome) in &self.rows {
            let (seconds, passed, failed) = (took.as_secs_f32(), outcome.passed, outcome.failed);
            println!("{suite:<38} {seconds:>7.1} {passed:>7} {failed:>7}");
        }
        for (suite, _, outcome) in &self.rows {
            outcome.notes.iter().for_each(|note| println!("note: {suite}: {note}"));
            outcome.error.iter().for_each(|error| println!("failed: {suite}: {error}"));
        }
        for Skip { test, reason } in skips {
            println!("skipped: {test}: {reason}");
        }
        let passed: u32 = self.rows.iter().map(|(_, _, outcome)| outcome.passed).sum();
        let failed: u32 = self.rows.iter().map(|(_, _, outcome)| outcome.failed).sum();
        let skipped = u32::try_from(skips.len()).unwrap_or(u32::MAX);
        // To the harness a skipped test is one that passed.
        println!("\n{} passed, {failed} failed, {skipped} skipped", passed.saturating_sub(skipped));
    }
}

/// A test that did not run, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Skip {
    test: String,
    reason: String,
}

/// Reads what tests wrote of their skips: a name, a tab, a reason.
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
    fn the_harness_summary_is_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.01s";
        assert_eq!(counts(line), Some((12, 3)));
        assert_eq!(counts("test core::tests::x ... ok"), None);
    }

    #[test]
    fn a_program_that_dies_without_a_summary_has_failed() {
        let outcome = of_tests(Command::new("sh").args(["-c", "kill -9 $$"])).unwrap();
        assert_eq!(outcome.failed, 1);
    }

    #[test]
    fn a_run_without_any_test_has_not_passed() {
        let mut report = Report::default();
        assert!(!report.passed());
        report.add("core".into(), Duration::ZERO, Outcome::check());
        assert!(report.passed());
        report.add("cli".into(), Duration::ZERO, Outcome::failed(&anyhow::anyhow!("broken")));
        assert!(!report.passed());
    }

    #[test]
    fn skips_are_read_with_their_reasons() {
        let read = skips("a_pod_runs\tneeds Go\nhalf a line\n");
        assert_eq!(read, [Skip { test: "a_pod_runs".into(), reason: "needs Go".into() }]);
    }
}
