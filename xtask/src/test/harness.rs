//! Running a program of Rust's test harness, and reading what it prints.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::folder::Folder;
use super::outcome::{Outcome, skips};
use crate::step;

/// Runs it with a temporary folder in the run's own, shows its output, and tells how its tests ended.
pub(super) fn run(command: &mut Command, folder: &Folder) -> Result<Outcome> {
    command.env("TMPDIR", folder.temp()).env("MUSTER_TEST_SKIPS", folder.skips());
    let mut outcome = of_tests(&mut step::dying_with_us(command))?;
    if let Ok(noted) = std::fs::read_to_string(folder.skips()) {
        std::fs::remove_file(folder.skips())?;
        outcome.skip(skips(&noted));
    }
    let left = folder.remove_leftovers().context("cannot clear the tests' temporary folder")?;
    if !left.is_empty() {
        outcome.fail(format!("its tests left behind in the temporary folder: {}", left.join(", ")));
    }
    Ok(outcome)
}

fn of_tests(command: &mut Command) -> Result<Outcome> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start the tests")?;
    let output = child.stdout.take().context("the tests have no output")?;
    let mut outcome = Outcome::default();
    let mut reader = Reader::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        reader.read(&line, &mut outcome);
    }
    let status = child.wait()?;
    if !status.success() && outcome.failed == 0 {
        outcome.fail(format!("the test program ended with {status}"));
    }
    Ok(outcome)
}

/// Understands the harness line by line.
#[derive(Debug, Default)]
struct Reader {
    /// The names below the last `failures:`; the harness writes that word twice, and the second time only names.
    failures: Option<Vec<String>>,
}

impl Reader {
    fn read(&mut self, line: &str, outcome: &mut Outcome) {
        if line == "failures:" {
            self.failures = Some(Vec::new());
        } else if let Some((passed, failed)) = counts(line) {
            outcome.passed += passed;
            outcome.failed += failed;
            outcome.failures.extend(self.failures.take().unwrap_or_default());
        } else if let (Some(failures), Some(name)) = (&mut self.failures, line.strip_prefix("    ")) {
            failures.push(name.to_owned());
        }
    }
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

    fn script(script: &str) -> (Outcome, Vec<String>) {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make(parent.path()).unwrap();
        let outcome = run(Command::new("sh").args(["-c", script]), &folder).unwrap();
        let left = folder.remove_leftovers().unwrap();
        (outcome, left)
    }

    #[test]
    fn the_harness_summaries_are_counted_and_failed_tests_named() {
        let (mut reader, mut outcome) = (Reader::default(), Outcome::default());
        OUTPUT.lines().for_each(|line| reader.read(line, &mut outcome));
        assert_eq!((outcome.passed, outcome.failed), (15, 1));
        assert_eq!(outcome.failures, ["ids::tests::bad"]);
    }

    #[test]
    fn a_program_that_dies_without_a_summary_has_failed() {
        let (outcome, _) = script("kill -9 $$");
        assert_eq!(outcome.failed, 1);
        assert!(outcome.errors[0].contains("signal: 9"), "{outcome:?}");
    }

    #[test]
    fn a_skipped_test_is_no_passed_one() {
        let ok = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
        let (outcome, _) = script(&format!("printf 'a_pod_runs\\tneeds Go\\n' >>$MUSTER_TEST_SKIPS; {ok}"));
        assert_eq!((outcome.passed, outcome.skips.len()), (1, 1));
    }

    #[test]
    fn tests_that_leave_files_behind_have_failed_and_the_next_ones_do_not_see_them() {
        let ok = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
        let (outcome, left) = script(&format!("mkdir $TMPDIR/dask-scratch-space; {ok}"));
        assert_eq!((outcome.passed, outcome.failed), (2, 1));
        assert_eq!(outcome.errors, ["its tests left behind in the temporary folder: dask-scratch-space"]);
        assert_eq!(left, [] as [&str; 0]);
    }
}
