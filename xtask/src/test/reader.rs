//! The parser of the output of Rust's test harness: results, failures, and slow tests.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::outcome::SuiteOutcome;

/// The time after which the harness reports a test as slow, once for each test.
pub(super) const SLOW: Duration = Duration::from_mins(1);

/// Parses the output of one test program line by line.
#[derive(Debug)]
pub(super) struct Reader {
    limit: Duration,
    /// The names below the last `failures:`. The harness prints that line twice, the second time with names only.
    failures: Option<Vec<String>>,
    /// The tests that the harness has reported as slow and that have not ended, with the times of their starts.
    slow: BTreeMap<String, Instant>,
    /// The number of tests that have not ended, once the program has announced their number.
    unfinished: Option<u32>,
    passed: u32,
    failed: Vec<String>,
    last_line: Instant,
}

impl Reader {
    /// Creates a reader with a time limit for each test, which must be at least [`SLOW`].
    pub(super) fn new(limit: Duration, now: Instant) -> Self {
        Self {
            limit,
            failures: None,
            slow: BTreeMap::new(),
            unfinished: None,
            passed: 0,
            failed: Vec::new(),
            last_line: now,
        }
    }

    pub(super) fn read(&mut self, line: &str, now: Instant, outcome: &mut SuiteOutcome) {
        self.last_line = now;
        if line == "failures:" {
            self.failures = Some(Vec::new());
        } else if let Some((passed, failed)) = counts(line) {
            outcome.passed += passed;
            outcome.failed += failed;
            outcome.failures.extend(self.failures.take().unwrap_or_default());
            (self.passed, self.unfinished) = (0, Some(0));
            self.failed.clear();
            self.slow.clear();
        } else if let (Some(failures), Some(name)) = (&mut self.failures, line.strip_prefix("    ")) {
            failures.push(name.to_owned());
        } else if let Some(count) = announced(line) {
            self.unfinished = Some(count);
        } else if let Some(rest) = line.strip_prefix("test ") {
            self.test(rest, now);
        }
    }

    fn test(&mut self, rest: &str, now: Instant) {
        if let Some((name, _)) = rest.split_once(" has been running for over ") {
            self.slow.insert(name.to_owned(), now.checked_sub(SLOW).unwrap_or(now));
        } else if let Some((name, result)) = rest.split_once(" ... ") {
            self.slow.remove(name);
            self.unfinished = self.unfinished.map(|count| count.saturating_sub(1));
            match result {
                "ok" => self.passed += 1,
                "FAILED" => self.failed.push(name.to_owned()),
                _ => {}
            }
        }
    }

    /// The time at which the program is killed unless it prints a line before. `None` before the program has announced
    /// its tests, because `cargo test --doc` compiles until then.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.unfinished?;
        // Without a slow test the last line counts: a silent program hangs outside of its tests, or runs one test at a
        // time.
        let started = self.slow.values().min().copied().unwrap_or(self.last_line);
        Some(started + self.limit)
    }

    /// Adds the results so far of a program that was killed at its deadline.
    pub(super) fn ended(self, now: Instant, outcome: &mut SuiteOutcome) {
        let Self { limit, slow, unfinished, passed, failed, .. } = self;
        outcome.passed += passed;
        outcome.failed += u32::try_from(failed.len()).unwrap_or(u32::MAX);
        outcome.failures.extend(failed);
        let (late, others): (Vec<_>, Vec<_>) =
            slow.into_iter().partition(|(_, started)| now.saturating_duration_since(*started) >= limit);
        if late.is_empty() {
            outcome.fail(match unfinished {
                Some(0) => {
                    format!(
                        "the test program did not end within {limit:?} after its last test: it was killed"
                    )
                }
                _ => format!("the test program printed nothing for {limit:?}: it was killed"),
            });
        }
        for (name, _) in &late {
            outcome.fail(format!("{name}: still running after {limit:?}, so the test program was killed"));
        }
        let also: Vec<String> = others
            .iter()
            .map(|(name, started)| {
                format!("{name} (for {} s)", now.saturating_duration_since(*started).as_secs())
            })
            .collect();
        if !also.is_empty() {
            outcome.notes.push(format!("also running then: {}", also.join(", ")));
        }
        let rest = unfinished.unwrap_or(0).saturating_sub(u32::try_from(late.len()).unwrap_or(u32::MAX));
        if rest > 0 {
            outcome.notes.push(format!("{rest} tests of the killed program have no result"));
        }
    }
}

/// The number of `running 5 tests`.
fn announced(line: &str) -> Option<u32> {
    let rest = line.strip_prefix("running ")?;
    let (count, _) = rest.split_once(" test")?;
    count.parse().ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_mins(5);

    const OUTPUT: &str = "\
running 2 tests
test ids::tests::good ... ok
test ids::tests::bad ... FAILED

failures:

---- ids::tests::bad stdout ----
    an indented line of its output

failures:
    ids::tests::bad

test result: FAILED. 12 passed; 1 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.01s
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    /// Reads lines, each with the second at which it was printed; also returns the time of second 0.
    fn read(lines: &[(u64, &str)]) -> (Reader, SuiteOutcome, Instant) {
        let start = Instant::now() + SLOW;
        let (mut reader, mut outcome) = (Reader::new(LIMIT, start), SuiteOutcome::default());
        for (second, line) in lines {
            reader.read(line, start + Duration::from_secs(*second), &mut outcome);
        }
        (reader, outcome, start)
    }

    #[test]
    fn the_harness_summaries_are_counted_and_failed_tests_named() {
        let lines: Vec<(u64, &str)> = OUTPUT.lines().map(|line| (0, line)).collect();
        let (_, outcome, _) = read(&lines);
        assert_eq!((outcome.passed, outcome.failed), (15, 1));
        assert_eq!(outcome.failures, ["ids::tests::bad"]);
    }

    #[test]
    fn the_oldest_running_test_sets_the_deadline_and_other_tests_do_not_move_it() {
        let hangs = "test hangs has been running for over 60 seconds";
        let slow = "test slow has been running for over 60 seconds";
        let mut lines = vec![(0, "running 3 tests"), (61, hangs), (90, slow), (200, "test good ... ok")];
        let (reader, _, start) = read(&lines);
        assert_eq!(reader.deadline(), Some(start + Duration::from_secs(301)));
        lines.push((250, "test hangs ... ok"));
        let (reader, _, start) = read(&lines);
        assert_eq!(reader.deadline(), Some(start + Duration::from_secs(330)));
        lines.push((260, "test slow ... FAILED"));
        let (reader, _, start) = read(&lines);
        assert_eq!(reader.deadline(), Some(start + Duration::from_secs(560)));
    }

    #[test]
    fn there_is_no_deadline_before_the_tests_start_and_one_after_they_have_ended() {
        let (reader, ..) = read(&[(0, "   Doc-tests muster_core")]);
        assert_eq!(reader.deadline(), None);
        let (reader, mut outcome, start) =
            read(&[(0, "running 1 test"), (5, "test result: ok. 1 passed; 0 failed;")]);
        assert_eq!(reader.deadline(), Some(start + Duration::from_secs(305)));
        reader.ended(start + Duration::from_secs(305), &mut outcome);
        assert_eq!((outcome.passed, outcome.failed), (1, 1));
        assert_eq!(
            outcome.errors,
            ["the test program did not end within 300s after its last test: it was killed"]
        );
    }

    #[test]
    fn a_test_over_its_limit_is_named_with_what_else_ran_and_the_results_so_far_count() {
        let (reader, mut outcome, start) = read(&[
            (0, "running 9 tests"),
            (1, "test good ... ok"),
            (2, "test bad ... FAILED"),
            (61, "test hangs has been running for over 60 seconds"),
            (90, "test slow has been running for over 60 seconds"),
        ]);
        reader.ended(start + Duration::from_secs(301), &mut outcome);
        assert_eq!((outcome.passed, outcome.failed), (1, 2));
        assert_eq!(outcome.failures, ["bad"]);
        assert_eq!(outcome.errors, ["hangs: still running after 300s, so the test program was killed"]);
        assert_eq!(
            outcome.notes,
            ["also running then: slow (for 271 s)", "6 tests of the killed program have no result"]
        );
    }
}
