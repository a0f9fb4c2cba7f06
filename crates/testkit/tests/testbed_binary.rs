//! The testbed ends on request and leaves nothing behind.

#![expect(clippy::unwrap_used, reason = "helpers of tests may stop at what they did not expect")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use muster_testkit::{Process, TestbedAnswer, request_part, skip};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use serde_json::{Value, json};
use tempfile::TempDir;

const SOON: Duration = Duration::from_mins(1);

/// A testbed of one test with a temporary folder of one test, so that no other sweep interferes.
struct Own {
    process: Process,
    dir: PathBuf,
}

impl Own {
    async fn start(temp: &TempDir, inventory: &Path) -> Self {
        let process = Process::spawn("testbed", &command(temp, inventory));
        let line = process.wait_for_line("export MUSTER_TESTBED=", SOON).await;
        let dir = line.split_once('=').expect("a variable and its value").1.into();
        Self { process, dir }
    }
}

fn command(temp: &TempDir, inventory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command.args(["--lazy", "--until-eof", "--inventory"]).arg(inventory).env("TMPDIR", temp.path());
    command
}

/// A temporary folder through which PostgreSQL's user can pass.
fn temp() -> TempDir {
    let open = Permissions::from_mode(0o711);
    tempfile::Builder::new().prefix("muster-test-").permissions(open).tempdir().unwrap()
}

fn inventory(temp: &TempDir, content: &Value) -> PathBuf {
    let path = temp.path().join("inventory.json");
    fs::write(&path, content.to_string()).unwrap();
    path
}

/// The inventory of this machine; `None` if the test is skipped because no PostgreSQL can be started here.
fn inventory_with_postgres() -> Option<PathBuf> {
    let testbed = std::env::var_os("MUSTER_TESTBED").expect(
        "MUSTER_TESTBED is not set: run `cargo xtask test`, or run `cargo xtask testbed start` in another terminal \
         and export what it prints",
    );
    let path = Path::new(&testbed).join("inventory.json");
    let content: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    if content.pointer("/postgres/bin_dir").is_none() {
        let why = content.pointer("/missing/postgres").and_then(Value::as_str);
        skip(why.unwrap_or(
            "PostgreSQL does not belong to the testbed here, so the testbed has no server of its own to stop",
        ));
        return None;
    }
    Some(path)
}

/// Starts PostgreSQL in the testbed and returns its process id.
async fn start_postgres(testbed: &Own) -> u32 {
    match request_part(&testbed.dir, "postgres").await.unwrap() {
        TestbedAnswer::Have(_) => {}
        other => panic!("{other:?}"),
    }
    let pid_file = fs::read_to_string(testbed.dir.join("postgres/postmaster.pid")).unwrap();
    pid_file.lines().next().unwrap().parse().unwrap()
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn leftovers(temp: &TempDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap() != "inventory.json").collect()
}

#[tokio::test]
async fn the_end_of_its_input_ends_it() {
    let temp = temp();
    let inventory = inventory(&temp, &json!({}));
    let mut testbed = Own::start(&temp, &inventory).await;
    assert!(testbed.dir.starts_with(temp.path()));
    testbed.process.close_stdin();
    assert!(testbed.process.wait_for_exit(SOON).await.success());
    assert_eq!(leftovers(&temp), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn sigterm_ends_it_with_everything_it_started() {
    let Some(inventory) = inventory_with_postgres() else { return };
    let temp = temp();
    let mut testbed = Own::start(&temp, &inventory).await;
    let postgres = start_postgres(&testbed).await;
    assert!(is_alive(postgres));
    testbed.process.terminate();
    assert!(testbed.process.wait_for_exit(SOON).await.success());
    assert!(!is_alive(postgres));
    assert_eq!(leftovers(&temp), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn a_killed_testbed_leaves_no_process_and_the_next_one_sweeps_its_folder() {
    let Some(inventory) = inventory_with_postgres() else { return };
    let temp = temp();
    let mut killed = Own::start(&temp, &inventory).await;
    let postgres = start_postgres(&killed).await;
    let children = descendants(killed.process.id().unwrap());
    assert!(children.contains(&postgres), "{children:?}");

    // Makes this process, and not the machine's first process, the parent of the orphaned children.
    set_child_subreaper(Some(getpid())).unwrap();
    killed.process.kill();
    killed.process.wait_for_exit(SOON).await;
    wait_for_ends(children);
    assert!(!is_alive(postgres));
    assert!(killed.dir.exists());

    let mut next = Own::start(&temp, &inventory).await;
    assert!(!killed.dir.exists());
    next.process.close_stdin();
    assert!(next.process.wait_for_exit(SOON).await.success());
    assert_eq!(leftovers(&temp), [] as [PathBuf; 0]);
}

/// The descendants of a process, parents before their children; those that end meanwhile may be missing.
fn descendants(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let children = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children = children.collect::<String>();
    let children: Vec<u32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    children.iter().copied().chain(children.iter().copied().flat_map(descendants)).collect()
}

/// Waits for the ends of processes that became children of this one when their parent died.
fn wait_for_ends(pids: Vec<u32>) {
    let (ended, all_ended) = mpsc::channel();
    thread::spawn(move || {
        for pid in pids {
            match waitpid(Pid::from_raw(pid.cast_signed()), WaitOptions::empty()) {
                // The process had ended before its parent, which had waited for it.
                Err(Errno::CHILD) => {}
                end => drop(end.unwrap()),
            }
        }
        ended.send(()).unwrap();
    });
    all_ended.recv_timeout(SOON).expect("a child of the killed testbed lives on");
}

#[tokio::test]
async fn a_component_that_dies_ends_it_with_the_reason() {
    let Some(inventory) = inventory_with_postgres() else { return };
    let temp = temp();
    let mut testbed = Own::start(&temp, &inventory).await;
    let postgres = start_postgres(&testbed).await;
    kill_process(Pid::from_raw(postgres.cast_signed()).unwrap(), Signal::QUIT).unwrap();
    assert!(!testbed.process.wait_for_exit(SOON).await.success());
    testbed.process.wait_for_line("testbed: postgres ended with", SOON).await;
    assert_eq!(leftovers(&temp), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn what_is_missing_is_answered_with_its_sentence() {
    let temp = temp();
    let why = "needs Go 1.26 or newer, and `go` was not found";
    let names = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
        "python/dask",
        "postgres",
    ];
    let missing: Value =
        names.iter().map(|name| ((*name).to_owned(), json!(why))).collect::<serde_json::Map<_, _>>().into();
    let inventory = inventory(&temp, &json!({"missing": missing}));
    let testbed = Own::start(&temp, &inventory).await;
    for want in ["kubernetes", "postgres", "python/dask"] {
        let answer = request_part(&testbed.dir, want).await.unwrap();
        assert!(
            matches!(&answer, TestbedAnswer::Missing(sentence) if sentence.contains(why)),
            "{want}: {answer:?}"
        );
    }
    let answer = request_part(&testbed.dir, "moon").await.unwrap();
    assert!(matches!(answer, TestbedAnswer::Failed(_)), "{answer:?}");
}

/// An inventory whose PostgreSQL consists of these shell scripts.
fn scripted_postgres(temp: &TempDir, scripts: &[(&str, &str)]) -> PathBuf {
    let programs = temp.path().join("programs");
    fs::create_dir(&programs).unwrap();
    for (name, script) in scripts {
        let path = programs.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    inventory(temp, &json!({"postgres": {"bin_dir": programs}}))
}

async fn failure(testbed: &Own) -> String {
    match request_part(&testbed.dir, "postgres").await.unwrap() {
        TestbedAnswer::Failed(sentence) => sentence,
        other => panic!("it did not fail: {other:?}"),
    }
}

#[tokio::test]
async fn a_part_that_does_not_start_is_answered_with_the_end_of_its_log() {
    let temp = temp();
    let inventory = scripted_postgres(&temp, &[("initdb", "echo the disk is full; exit 3")]);
    let testbed = Own::start(&temp, &inventory).await;
    let sentence = failure(&testbed).await;
    assert!(sentence.contains("initdb ended with exit status: 3"), "{sentence}");
    assert!(sentence.contains("the disk is full"), "{sentence}");
}

#[tokio::test]
async fn a_part_whose_port_was_taken_is_started_three_times() {
    let temp = temp();
    let taken = "echo could not bind: Address already in use; exit 1";
    let scripts = [("initdb", "exit 0"), ("postgres", taken), ("pg_isready", "exit 2")];
    let testbed = Own::start(&temp, &scripted_postgres(&temp, &scripts)).await;
    let sentence = failure(&testbed).await;
    assert!(sentence.contains("Address already in use"), "{sentence}");
    let starts = fs::read_to_string(testbed.process.log()).unwrap().matches("waiting for postgres").count();
    assert_eq!(starts, 3);
}

#[tokio::test]
async fn an_unknown_operator_is_refused() {
    let temp = temp();
    let inventory = inventory(&temp, &json!({}));
    let mut command = command(&temp, &inventory);
    command.args(["--operators", "moon"]);
    let mut testbed = Process::spawn("testbed", &command);
    assert!(!testbed.wait_for_exit(SOON).await.success());
    testbed.wait_for_line("there is no operator `moon`", SOON).await;
    assert_eq!(leftovers(&temp), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn a_command_line_is_checked_without_an_inventory_and_nothing_is_made() {
    let temp = temp();
    let dir = temp.path().join("bed");
    let busy = temp.path().join("busy");
    fs::create_dir(&busy).unwrap();
    fs::write(busy.join("thesis.tex"), "").unwrap();
    let good = ["--nodes", "1000", "--dir", dir.to_str().unwrap()];
    let bad: [(&[&str], &str); 4] = [
        (&["--nodes", "1001"], "1001 is not in 1..=1000"),
        (&["--operators", ""], "--operators has an empty name in it"),
        (&["--operators", "moon"], "there is no operator `moon`"),
        (&["--dir", busy.to_str().unwrap()], "it is not empty"),
    ];
    for (arguments, sentence) in [(&good as &[&str], None)].into_iter().chain(bad.map(|(a, s)| (a, Some(s))))
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
        command.arg("--check").args(arguments);
        let mut check = Process::spawn("check", &command);
        assert_eq!(check.wait_for_exit(SOON).await.success(), sentence.is_none(), "{}", check.tail());
        if let Some(sentence) = sentence {
            check.wait_for_line(sentence, SOON).await;
        }
    }
    assert_eq!(leftovers(&temp), [busy]);
}

/// Runs a test of this program that needs PostgreSQL with an inventory without PostgreSQL.
async fn run_a_test_without_postgres(temp: &TempDir, ci: &str) -> (ExitStatus, Process) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "sigterm_ends_it_with_everything_it_started"]);
    inventory(temp, &json!({"missing": {"postgres": "no PostgreSQL"}}));
    command
        .env("MUSTER_TESTBED", temp.path())
        .env("MUSTER_TEST_SKIPS", temp.path().join("skips"))
        .env("CI", ci);
    let mut test = Process::spawn("test", &command);
    (test.wait_for_exit(SOON).await, test)
}

#[tokio::test]
async fn a_skipped_test_is_noted_with_its_reason() {
    let temp = temp();
    let (status, test) = run_a_test_without_postgres(&temp, "").await;
    assert!(status.success(), "{}", test.tail());
    let noted = fs::read_to_string(temp.path().join("skips")).unwrap();
    let (name, why) = noted.trim_end().split_once('\t').unwrap();
    assert!(name == "sigterm_ends_it_with_everything_it_started" || name.starts_with("a test of "), "{name}");
    assert_eq!(why, "no PostgreSQL");
}

#[tokio::test]
async fn with_ci_a_test_that_would_be_skipped_fails() {
    let temp = temp();
    let (status, test) = run_a_test_without_postgres(&temp, "true").await;
    assert!(!status.success());
    test.wait_for_line("with CI=true no test may be skipped, but: no PostgreSQL", SOON).await;
}
