//! The summary of a run.

use std::fmt::Write as _;
use std::time::Duration;

use super::outcome::{Skip, SuiteOutcome};

/// All suites of a run.
#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<(String, Duration, SuiteOutcome)>,
    left_out: Vec<String>,
}

impl Report {
    pub(super) fn add(&mut self, suite: &str, took: Duration, outcome: SuiteOutcome) {
        self.rows.push((suite.to_owned(), took, outcome));
    }

    /// Records a suite that could not run because of a failure that has another row.
    pub(super) fn leave_out(&mut self, suite: &str) {
        self.left_out.push(suite.to_owned());
    }

    pub(super) fn passed(&self) -> bool {
        self.sum(|outcome| outcome.failed) == 0 && self.sum(|outcome| outcome.passed) > 0
    }

    fn sum(&self, of: fn(&SuiteOutcome) -> u32) -> u32 {
        self.rows.iter().map(|(_, _, outcome)| of(outcome)).sum()
    }

    pub(super) fn print(&self, filter: Option<&str>) {
        print!("{}", self.text(filter));
    }

    /// The summary as text: times, notes, failures, skips, and the counts as the last line.
    fn text(&self, filter: Option<&str>) -> String {
        let mut text =
            String::from("\nsuite                                  seconds  passed  failed skipped\n");
        for (suite, took, outcome) in &self.rows {
            let (seconds, passed, failed) = (took.as_secs_f32(), outcome.passed, outcome.failed);
            let skipped = outcome.skipped();
            let _ = writeln!(text, "{suite:<38} {seconds:>7.1} {passed:>7} {failed:>7} {skipped:>7}");
        }
        for (suite, _, SuiteOutcome { notes, errors, failures, skips, .. }) in &self.rows {
            for note in notes {
                let _ = writeln!(text, "note: {suite}: {note}");
            }
            for what in errors.iter().chain(failures) {
                let _ = writeln!(text, "failed: {suite}: {what}");
            }
            for Skip { test, reason } in skips {
                let _ = writeln!(text, "skipped: {suite}: {test}: {reason}");
            }
        }
        if !self.left_out.is_empty() {
            let _ = writeln!(text, "not run because of that: {}", self.left_out.join(", "));
        }
        let (passed, failed) = (self.sum(|outcome| outcome.passed), self.sum(|outcome| outcome.failed));
        let skipped = self.sum(SuiteOutcome::skipped);
        if passed + failed + skipped == 0 {
            let _ = match filter {
                Some(filter) => writeln!(text, "no test's name contains '{filter}'"),
                None => writeln!(text, "there was nothing to run"),
            };
        }
        let _ = writeln!(text, "\n{passed} passed, {failed} failed, {skipped} skipped");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_any_test_has_not_passed_and_says_so() {
        let mut report = Report::default();
        report.add("build", Duration::ZERO, SuiteOutcome::default());
        assert!(!report.passed());
        let text = report.text(Some("moon"));
        assert!(
            text.ends_with("no test's name contains 'moon'\n\n0 passed, 0 failed, 0 skipped\n"),
            "{text}"
        );
        report.add("core", Duration::ZERO, SuiteOutcome::check());
        assert!(report.passed());
        report.add("cli", Duration::ZERO, SuiteOutcome::failed(&anyhow::anyhow!("broken")));
        assert!(!report.passed());
    }

    #[test]
    fn failures_and_skips_are_named_with_their_suite_and_the_counts_come_last() {
        let mut report = Report::default();
        let mut outcome = SuiteOutcome {
            passed: 3,
            failed: 1,
            failures: vec!["ids::bad".into()],
            ..SuiteOutcome::default()
        };
        outcome.skip(vec![Skip { test: "a_pod_runs".into(), reason: "needs Go".into() }]);
        report.add("core::lib", Duration::from_millis(1250), outcome);
        report.leave_out("cli::serve");
        let expected = "
suite                                  seconds  passed  failed skipped
core::lib                                  1.2       2       1       1
failed: core::lib: ids::bad
skipped: core::lib: a_pod_runs: needs Go
not run because of that: cli::serve

2 passed, 1 failed, 1 skipped
";
        assert_eq!(report.text(None), expected);
    }
}
