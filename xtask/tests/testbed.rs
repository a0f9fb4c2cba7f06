//! The parts that `cargo xtask testbed` builds are complete, whatever happened before; `go` is a script here.

#![expect(clippy::unwrap_used, reason = "helpers of tests may stop at what they did not expect")]

use std::fs::{self, File, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rstest::rstest;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const SOON: Duration = Duration::from_mins(1);

/// A `go` that writes the program at once; the module of the program is a folder of the sample.
const GO: &str = r#"
[ "$1" = version ] && { echo go version go1.26; exit; }
[ "$1" = list ] && { echo "$SAMPLE/module"; exit; }
while [ "$1" != -o ]; do shift; done
echo program >"$2"
"#;

/// A `go` that starts a helper, which writes the program once it is released, and waits for it. The pipe `alive` is
/// closed when this `go` ends.
const SLOW_GO: &str = r#"
[ "$1" = version ] && { echo go version go1.26; exit; }
while [ "$1" != -o ]; do shift; done
(read -r _ <"$SAMPLE/release"; echo late >"$2") &
exec 3>"$SAMPLE/alive"
echo started >&3
wait
"#;

/// A tree with one tool, a cache, and its own folder of programs.
struct Sample {
    folder: TempDir,
}

impl Sample {
    fn new(go: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sample = Self { folder };
        let module = sample.path("tree/testbed/tool");
        fs::create_dir_all(&module).unwrap();
        fs::write(module.join("go.mod"), "module m\n\ngo 1.26\n\ntool example.test/tool\n").unwrap();
        fs::write(module.join("go.sum"), "").unwrap();
        fs::create_dir(sample.path("bin")).unwrap();
        symlink("/usr/bin/setpriv", sample.path("bin/setpriv")).unwrap();
        sample.install_go(go);
        sample
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn install_go(&self, script: &str) {
        let new = self.path("bin/go.new");
        fs::write(&new, format!("#!/bin/sh{script}")).unwrap();
        fs::set_permissions(&new, Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, self.path("bin/go")).unwrap();
    }

    fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        path
    }

    fn testbed(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .arg("testbed")
            .env("CARGO_MANIFEST_DIR", self.path("tree/xtask"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("PATH", self.path("bin"))
            .env("SAMPLE", self.folder.path())
            .env("MUSTER_TEST_POSTGRES_URL", "postgres://127.0.0.1/postgres")
            .env_remove("KUBEBUILDER_ASSETS")
            .env_remove("CI")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The output of a run.
    fn provide(&self) -> String {
        let Output { status, stdout, stderr } = self.testbed().output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    /// The path of the tool in the table of a run.
    fn tool(&self) -> PathBuf {
        self.row("tool ")
    }

    /// The path in the row that begins with `name`.
    fn row(&self, name: &str) -> PathBuf {
        let table = self.provide();
        let row = table.lines().find(|line| line.trim_start().starts_with(name)).expect(&table);
        row.split_whitespace().last().unwrap().into()
    }
}

/// Returns the result of `work`; panics if it hangs.
fn soon<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    result.recv_timeout(SOON).unwrap_or_else(|_| panic!("{what} takes too long"))
}

fn wait(mut child: Child) -> Output {
    soon("the end of a run", move || {
        child.wait().unwrap();
        child.wait_with_output().unwrap()
    })
}

#[rstest]
#[case::killed(Signal::KILL)]
#[case::asked_to_end(Signal::TERM)]
fn a_builder_dies_with_its_run_and_the_next_run_waits_for_what_it_left(#[case] signal: Signal) {
    let sample = Sample::new(SLOW_GO);
    let (alive, release) = (sample.pipe("alive"), sample.pipe("release"));
    let first = sample.testbed().spawn().unwrap();
    let mut alive = soon("the builder's start", move || {
        let mut alive = BufReader::new(File::open(alive).unwrap());
        alive.read_line(&mut String::new()).unwrap();
        alive
    });
    kill_process(Pid::from_child(&first), signal).unwrap();
    assert!(!wait(first).status.success());
    soon("the builder's end", move || alive.read_to_end(&mut Vec::new()).unwrap());

    sample.install_go(GO);
    let mut second = sample.testbed().spawn().unwrap();
    let mut stderr = BufReader::new(second.stderr.take().unwrap());
    let (said, _stderr) = soon("the wait", move || {
        let mut said = String::new();
        stderr.read_line(&mut said).unwrap();
        (said, stderr)
    });
    assert!(said.starts_with("» waiting for another run that is building the testbed"), "{said}");
    soon("the release", move || File::options().write(true).open(release).unwrap().write_all(b"\n").unwrap());
    let output = wait(second);
    assert!(output.status.success());
    assert_eq!(fs::read_to_string(sample.tool()).unwrap(), "program\n");
}

#[test]
fn a_program_that_was_lost_is_built_again() {
    let sample = Sample::new(GO);
    let tool = sample.tool();
    fs::remove_file(&tool).unwrap();
    assert_eq!(sample.tool(), tool);
    assert_eq!(fs::read_to_string(tool).unwrap(), "program\n");
}

#[test]
fn without_go_what_is_built_is_there_and_the_rest_is_missing() {
    let sample = Sample::new(GO);
    let tool = sample.tool();
    fs::remove_file(sample.path("bin/go")).unwrap();
    assert_eq!(sample.tool(), tool);
    fs::remove_file(tool).unwrap();
    let table = sample.provide();
    assert!(table.contains("tool: needs Go 1.26, and `go` was not found"), "{table}");
    assert!(table.contains("without it, not run: the tests that ask for it"), "{table}");
}

#[test]
fn custom_resources_of_a_module_are_there_without_go_and_without_the_module() {
    let sample = Sample::new(GO);
    let module = sample.path("module/config/crd/bases");
    fs::create_dir_all(&module).unwrap();
    fs::write(module.join("clusters.yaml"), "kind: CustomResourceDefinition\n").unwrap();
    sample.provide();
    fs::remove_file(sample.path("bin/go")).unwrap();
    fs::remove_dir_all(sample.path("module")).unwrap();
    let crds = sample.row("crds/tool ");
    assert_eq!(fs::read_to_string(crds.join("clusters.yaml")).unwrap(), "kind: CustomResourceDefinition\n");
}

#[test]
fn without_a_network_the_first_line_says_so_and_the_log_follows() {
    let offline = "\n[ \"$1\" = version ] && { echo go1.26; exit; }\necho dial tcp: no such host; exit 1\n";
    let table = Sample::new(offline).provide();
    let expected = "  tool: needs the network (Go modules): building tool with Go failed with exit code 1\n";
    assert!(table.contains(expected), "{table}");
    assert!(table.ends_with("    dial tcp: no such host\n"), "{table}");
}

#[test]
fn a_run_leaves_no_inventory_behind() {
    let sample = Sample::new(GO);
    sample.provide();
    let names =
        fs::read_dir(sample.path("cache/muster/testbed")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[0], "lock");
    assert!(names[1].starts_with("tool-") && names[2] == "tool.log", "{names:?}");
}
