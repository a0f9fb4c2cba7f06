//! The execution of a test program, and the parser of its output.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::folder::RunFolder;
use super::outcome::{SuiteOutcome, skips};
use super::processes;
use super::reader::Reader;
use crate::step;

/// The capacity of the queue of lines: small, so that a program that prints fast waits for the terminal.
const LINES: usize = 64;

/// Runs a test program with a temporary folder in the run's folder, prints its output, and returns the outcome of its
/// tests. A program with a test that runs longer than `limit` is killed, with all processes that its tests started.
pub(super) fn run(command: &mut Command, folder: &RunFolder, limit: Duration) -> Result<SuiteOutcome> {
    command.env("TMPDIR", folder.temp()).env("MUSTER_TEST_SKIPS", folder.skips());
    let (mut outcome, end) = of_tests(&mut step::dying_with_us(command), folder, limit)?;
    if let Ok(noted) = std::fs::read_to_string(folder.skips()) {
        std::fs::remove_file(folder.skips())?;
        outcome.skip(skips(&noted));
    }
    let left = folder.remove_leftovers().context("cannot clear the tests' temporary folder")?;
    // A killed program cannot clean up, so that its leftovers are no failure.
    if end == ProgramEnd::Own && !left.is_empty() {
        outcome.fail(format!("its tests left behind in the temporary folder: {}", left.join(", ")));
    }
    Ok(outcome)
}

/// The end of a test program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramEnd {
    Own,
    Killed,
}

fn of_tests(
    command: &mut Command,
    folder: &RunFolder,
    limit: Duration,
) -> Result<(SuiteOutcome, ProgramEnd)> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start the tests")?;
    let lines = lines_of(child.stdout.take().context("the tests have no output")?);
    let mut outcome = SuiteOutcome::default();
    let mut reader = Reader::new(limit, Instant::now());
    loop {
        let line = match reader.deadline() {
            Some(deadline) => lines.recv_timeout(deadline.saturating_duration_since(Instant::now())),
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match line {
            Ok(line) => {
                let line = line?;
                let line = String::from_utf8_lossy(&line);
                println!("{line}");
                reader.read(&line, Instant::now(), &mut outcome);
            }
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                processes::kill_all_of(&folder.temp());
                reader.ended(Instant::now(), &mut outcome);
                return Ok((outcome, ProgramEnd::Killed));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait()?;
    if !status.success() && outcome.failed == 0 {
        outcome.fail(format!("the test program ended with {status}"));
    }
    Ok((outcome, ProgramEnd::Own))
}

/// Reads lines in a thread, so that the wait for a line can time out. The thread ends with the last process that can
/// write.
fn lines_of(output: impl Read + Send + 'static) -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, lines) = mpsc::sync_channel(LINES);
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::super::reader;
    use super::*;

    const OK: &str = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";

    fn script(script: &str) -> (SuiteOutcome, Vec<String>) {
        script_within(reader::SLOW, script)
    }

    fn script_within(limit: Duration, script: &str) -> (SuiteOutcome, Vec<String>) {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::make(parent.path()).unwrap();
        let outcome = run(Command::new("sh").args(["-c", script]), &folder, limit).unwrap();
        let left = folder.remove_leftovers().unwrap();
        (outcome, left)
    }

    #[test]
    fn a_program_that_dies_without_a_summary_has_failed() {
        let (outcome, _) = script("kill -9 $$");
        assert_eq!(outcome.failed, 1);
        assert!(outcome.errors[0].contains("signal: 9"), "{outcome:?}");
    }

    #[test]
    fn a_skipped_test_is_no_passed_one() {
        let (outcome, _) = script(&format!("printf 'a_pod_runs\\tneeds Go\\n' >>$MUSTER_TEST_SKIPS; {OK}"));
        assert_eq!((outcome.passed, outcome.skips.len()), (1, 1));
    }

    #[test]
    fn tests_that_leave_files_behind_have_failed_and_the_next_ones_do_not_see_them() {
        let (outcome, left) = script(&format!("mkdir $TMPDIR/dask-scratch-space; {OK}"));
        assert_eq!((outcome.passed, outcome.failed), (2, 1));
        assert_eq!(outcome.errors, ["its tests left behind in the temporary folder: dask-scratch-space"]);
        assert_eq!(left, [] as [&str; 0]);
    }

    #[test]
    fn a_test_that_hangs_is_ended_at_its_limit_and_named() {
        let hangs = "touch $TMPDIR/scratch; echo 'running 2 tests'; echo 'test good ... ok'; \
            echo 'test hangs has been running for over 60 seconds'; sleep 600";
        let (outcome, left) = script_within(reader::SLOW, hangs);
        assert_eq!((outcome.passed, outcome.failed), (1, 1));
        assert_eq!(outcome.errors, ["hangs: still running after 60s, so the test program was killed"]);
        assert_eq!(left, [] as [&str; 0]);
    }

    #[test]
    fn what_a_hanging_test_has_started_is_killed_with_it() {
        let parent = tempfile::tempdir().unwrap();
        let pid = parent.path().join("pid");
        // In a separate session, and with the output of the test program.
        let daemon =
            format!("setsid -f sh -c 'echo $$ >{0}.part; mv {0}.part {0}; exec sleep 600'", pid.display());
        let script = format!(
            "{daemon}; until [ -e {} ]; do sleep 0.01; done; echo 'running 1 test'; \
             echo 'test hangs has been running for over 60 seconds'",
            pid.display()
        );
        let (outcome, _) = script_within(reader::SLOW, &script);
        assert_eq!(outcome.errors.len(), 1, "{outcome:?}");
        let pid = std::fs::read_to_string(pid).unwrap();
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "still there: {state}");
    }

    #[test]
    fn a_program_that_does_not_end_after_its_tests_is_killed() {
        let limit = Duration::from_millis(200);
        let (outcome, _) = script_within(limit, &format!("{OK}; sleep 600"));
        assert_eq!((outcome.passed, outcome.failed), (2, 1));
        let error = "the test program did not end within 200ms after its last test: it was killed";
        assert_eq!(outcome.errors, [error]);
    }
}
