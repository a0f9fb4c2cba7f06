//! One node in folders of its own, of which nothing may be left.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_core::action::Fence;
use muster_core::ids::NodeId;
use muster_local::shim::{
    End, Launch, LogLimits, NODE_MARKER, NodeFolder, Outcome, Running, RuntimeFolder, Shims, Stop,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::unix::pipe::{OpenOptions, Receiver};

/// More than a busy machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const FIRST: Fence = Fence(7);

/// A node in folders of its own. When it goes, so must have all of its processes.
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

    /// A server that knows nothing of what the last one did.
    pub(crate) fn restarted_server(&self) -> Shims {
        shims(self.path())
    }

    /// A launch of this shell script.
    pub(crate) fn script(&self, script: &str) -> Launch {
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        let gate = ("GATE".to_owned(), self.path().join("gate").display().to_string());
        Launch {
            generation: FIRST,
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            environment: BTreeMap::from([path, gate]),
            working_folder: self.path().to_owned(),
            log: LogLimits::default(),
            oom_counter: None,
        }
    }

    pub(crate) async fn start(&self, launch: &Launch) -> Running {
        self.shims.start(&self.node, launch).await.expect("it starts")
    }

    /// Starts a script that never ends by itself.
    pub(crate) async fn start_sleeper(&self) -> Running {
        self.start(&self.script("exec sleep 1000")).await
    }

    /// Where a script reports: `echo word > $GATE`.
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

    /// The processes of the node, and its shim.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let id = self.node.node().to_string();
        let (mark, argument) = (format!("{NODE_MARKER}={id}"), id);
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let has = |pid: i32, file: &str, entry: &str| {
            fs::read(format!("/proc/{pid}/{file}"))
                .is_ok_and(|text| text.split(|byte| *byte == 0).any(|part| part == entry.as_bytes()))
        };
        numbers.filter(|pid| has(*pid, "environ", &mark) || has(*pid, "cmdline", &argument)).collect()
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
    Shims::of_program(env!("CARGO_BIN_EXE_muster-test-shim"), runtime)
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    // It may have ended, which is as good.
    let _ = kill_process(Pid::from_raw(pid).expect("a process has a number"), signal);
}

/// Waits for the end and says how it was.
pub(crate) async fn end(running: &Running) -> End {
    match outcome(running).await {
        Outcome::Ended(end) => end,
        other => panic!("it did not end but is {other:?}"),
    }
}

pub(crate) async fn outcome(running: &Running) -> Outcome {
    let waited = tokio::time::timeout(PATIENCE, running.exited()).await;
    waited.expect("it ends in time").expect("its end can be seen")
}

/// Stops it, with all the time it may need.
pub(crate) async fn stop(running: &Running) -> End {
    running.stop(FIRST, Stop::within(PATIENCE)).await.expect("it is asked to stop");
    end(running).await
}

/// What lets a script go on that waits: `read x < $GATE.go`.
pub(crate) struct Go(PathBuf);

impl Go {
    pub(crate) fn new(harness: &Harness) -> Self {
        let path = harness.path().join("gate.go");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("a pipe is made");
        Self(path)
    }

    pub(crate) async fn go(self) {
        let written = tokio::task::spawn_blocking(move || fs::write(self.0, "\n"));
        tokio::time::timeout(PATIENCE, written)
            .await
            .expect("the script reads")
            .expect("no panic")
            .expect("written");
    }
}

/// A pipe by which a script says that it is so far.
pub(crate) struct Gate(Receiver);

impl Gate {
    pub(crate) fn new(path: &Path) -> Self {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).expect("a pipe is made");
        // Open for writing too: the pipe must not end between one writer and the next.
        Self(OpenOptions::new().read_write(true).open_receiver(path).expect("the pipe opens"))
    }

    /// The next line that a script writes.
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
        tokio::time::timeout(PATIENCE, read).await.expect("the script says something in time");
        String::from_utf8(line).expect("text").trim().to_owned()
    }

    pub(crate) async fn number(&self) -> i32 {
        self.line().await.parse().expect("a number")
    }
}
