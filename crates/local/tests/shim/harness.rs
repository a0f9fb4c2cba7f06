//! A harness for one node, which checks that no process is left at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_core::action::Fence;
use muster_core::ids::NodeId;
use muster_local::shim::{
    LaunchSpec, LogLimits, NODE_MARKER, NodeExit, NodeFolder, RunOutcome, RunningNode, RuntimeFolder, Shims,
    StopSpec,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::unix::pipe::{OpenOptions, Receiver};

/// Time limit of each wait; ample even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const FIRST: Fence = Fence(7);

/// A node in temporary folders. Dropping it fails the test if processes of the node are left.
pub(crate) struct Harness {
    folders: TempDir,
    pub(crate) shims: Shims,
    pub(crate) node: NodeFolder,
}

impl Harness {
    pub(crate) fn new() -> Self {
        let folders = tempfile::tempdir().expect("a temporary folder");
        let node = NodeFolder::new(&folders.path().join("nodes"), NodeId::from_uuid(uuid::Uuid::new_v4()));
        let shims = shims(folders.path());
        Self { folders, shims, node }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folders.path()
    }

    /// Returns a new server without the state of the last one.
    pub(crate) fn restarted_server(&self) -> Shims {
        shims(self.path())
    }

    /// Returns the launch of a shell script.
    pub(crate) fn script(&self, script: &str) -> LaunchSpec {
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let gate = ("GATE".to_owned(), self.path().join("gate").display().to_string());
        LaunchSpec {
            generation: FIRST,
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            environment: BTreeMap::from([path, gate]),
            working_folder: self.path().to_owned(),
            log: LogLimits::default(),
            oom_counter: None,
        }
    }

    pub(crate) async fn start(&self, launch: &LaunchSpec) -> RunningNode {
        self.shims.start(&self.node, launch).await.expect("it starts")
    }

    /// Starts a script that never ends by itself.
    pub(crate) async fn start_sleeper(&self) -> RunningNode {
        self.start(&self.script("exec sleep 1000")).await
    }

    /// Creates the pipe to which a script reports: `echo word > $GATE`.
    pub(crate) fn gate(&self) -> Gate {
        Gate::new(&self.path().join("gate"))
    }

    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path().join("run")).expect("the runtime folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    pub(crate) fn has_no_socket(&self) {
        let sockets = self.sockets();
        assert!(sockets.is_empty(), "sockets {sockets:?} of the node are left");
    }

    pub(crate) fn has_no_process(&self) {
        let left = self.processes();
        assert!(left.is_empty(), "processes {left:?} of the node are left");
    }

    /// Lists the processes of the node, including its shim.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let id = self.node.node().to_string();
        let (marker, argument) = (format!("{NODE_MARKER}={id}"), id);
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let has = |pid: i32, file: &str, entry: &str| {
            fs::read(format!("/proc/{pid}/{file}"))
                .is_ok_and(|text| text.split(|byte| *byte == 0).any(|part| part == entry.as_bytes()))
        };
        numbers.filter(|pid| has(*pid, "environ", &marker) || has(*pid, "cmdline", &argument)).collect()
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.processes().into_iter().for_each(|pid| signal(pid, Signal::KILL));
        } else {
            self.has_no_process();
        }
    }
}

fn shims(folder: &Path) -> Shims {
    let runtime = RuntimeFolder::at(folder.join("run")).expect("a runtime folder");
    Shims::with_program(env!("CARGO_BIN_EXE_muster-test-shim"), runtime)
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    // Fails if the process has ended already.
    let _ = kill_process(Pid::from_raw(pid).expect("a process has a number"), signal);
}

/// Waits for the end of a node and returns it.
pub(crate) async fn end(running: &RunningNode) -> NodeExit {
    match outcome(running).await {
        RunOutcome::Ended(end) => end,
        other => panic!("it did not end but is {other:?}"),
    }
}

pub(crate) async fn outcome(running: &RunningNode) -> RunOutcome {
    let waited = tokio::time::timeout(PATIENCE, running.wait_for_exit()).await;
    waited.expect("it ends in time").expect("its end can be seen")
}

/// Stops a node with a long grace period.
pub(crate) async fn stop(running: &RunningNode) -> NodeExit {
    running.stop(FIRST, StopSpec::with_grace(PATIENCE)).await.expect("it is asked to stop");
    end(running).await
}

/// Releases a script that waits with `read x < $GATE.go`.
pub(crate) struct Release(PathBuf);

impl Release {
    pub(crate) fn new(harness: &Harness) -> Self {
        let path = harness.path().join("gate.go");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("a pipe is made");
        Self(path)
    }

    pub(crate) async fn release(self) {
        let written = tokio::task::spawn_blocking(move || fs::write(self.0, "\n"));
        tokio::time::timeout(PATIENCE, written)
            .await
            .expect("the script reads")
            .expect("no panic")
            .expect("written");
    }
}

/// A pipe by which a script reports its progress.
pub(crate) struct Gate(Receiver);

impl Gate {
    pub(crate) fn new(path: &Path) -> Self {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).expect("a pipe is made");
        // Opened for writing too, so that the pipe does not end between two writers.
        Self(OpenOptions::new().read_write(true).open_receiver(path).expect("the pipe opens"))
    }

    /// Reads the next line that a script writes.
    pub(crate) async fn line(&self) -> String {
        let mut line = Vec::new();
        let read = async {
            while line.last() != Some(&b'\n') {
                self.0.readable().await.expect("the pipe is open");
                let mut byte = [0];
                if self.0.try_read(&mut byte).is_ok() {
                    line.push(byte[0]);
                }
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("the script reports in time");
        String::from_utf8(line).expect("text").trim().to_owned()
    }

    pub(crate) async fn number(&self) -> i32 {
        self.line().await.parse().expect("a number")
    }
}
