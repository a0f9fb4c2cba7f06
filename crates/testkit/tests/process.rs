//! The output of child processes of tests can be read, and they end with their tests.

use std::panic::AssertUnwindSafe;
use std::process::Command;
use std::time::Duration;

use futures::FutureExt as _;
use muster_testkit::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

const SOON: Duration = Duration::from_secs(20);

fn shell(script: &str) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("GREETING", "hello");
    Process::spawn("shell", &command)
}

#[tokio::test]
async fn a_line_is_found_whether_it_was_written_before_or_after() {
    let mut process = shell("echo one; read _; echo $GREETING >&2; printf last");
    process.wait_for_line("one", SOON).await;
    process.wait_for_line("one", SOON).await;
    process.close_stdin();
    assert_eq!(process.wait_for_line("hell", SOON).await, "hello");
    assert_eq!(process.wait_for_line("la", SOON).await, "last");
    assert!(process.wait_for_exit(SOON).await.success());
    assert_eq!(std::fs::read_to_string(process.log()).unwrap(), "one\nhello\nlast\n");
}

#[tokio::test]
async fn a_wait_for_a_line_that_never_comes_shows_what_was_written() {
    let process = shell("echo the disk is full; exit 3");
    let waited = AssertUnwindSafe(process.wait_for_line("ready", SOON)).catch_unwind().await;
    let panic = waited.unwrap_err();
    let report = panic.downcast_ref::<String>().unwrap();
    assert!(report.contains("waited for shell to write \"ready\", but it closed its output"), "{report}");
    assert!(report.contains("the disk is full"), "{report}");
}

#[tokio::test]
async fn a_dropped_process_is_gone_with_its_children() {
    let process = shell("sleep 1000 & echo child $!; wait");
    let line = process.wait_for_line("child", SOON).await;
    let child = line.split_whitespace().last().unwrap().parse().unwrap();
    let child = pidfd_open(Pid::from_raw(child).unwrap(), PidfdFlags::empty()).unwrap();
    drop(process);
    let soon = Timespec::try_from(SOON).unwrap();
    let ended = poll(&mut [PollFd::new(&child, PollFlags::IN)], Some(&soon)).unwrap();
    assert_eq!(ended, 1, "the child of a dropped process lives on");
}

#[tokio::test]
async fn the_wait_for_all_includes_children_in_sessions_of_their_own() {
    let child = "echo child in $TMPDIR; read line < $TMPDIR/pipe";
    let mut process = shell(&format!("mkfifo $TMPDIR/pipe; setsid sh -c '{child}' & exit 0"));
    let line = process.wait_for_line("child", SOON).await;
    let pipe = std::path::Path::new(line.split_whitespace().last().unwrap()).join("pipe");
    let waited = AssertUnwindSafe(process.wait_for_exit_of_all(Duration::from_millis(100)));
    let panic = waited.catch_unwind().await.unwrap_err();
    let report = panic.downcast_ref::<String>().unwrap();
    assert!(report.contains("the end of all processes of shell"), "{report}");
    std::fs::write(pipe, "end\n").unwrap();
    process.wait_for_exit_of_all(SOON).await;
}

#[tokio::test]
async fn what_a_process_leaves_in_its_temporary_folder_goes_with_it() {
    let mut process = shell("mkdir $TMPDIR/scratch; echo left $TMPDIR");
    let line = process.wait_for_line("left", SOON).await;
    assert!(process.wait_for_exit(SOON).await.success());
    let temp = std::path::Path::new(line.split_whitespace().last().unwrap()).to_owned();
    assert!(temp.join("scratch").exists());
    drop(process);
    assert!(!temp.exists());
}
