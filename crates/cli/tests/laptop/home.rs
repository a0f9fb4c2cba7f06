//! A user's home folder in which the commands of a page are run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::traces::{self, Traces};

/// The longest time that a stopped server takes to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The interval between checks whether it has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A home folder of a user; dropping it ends everything that was started there.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("a temporary folder"));
        std::fs::create_dir(home.path().join("run")).expect("a folder for sockets");
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn data(&self) -> PathBuf {
        self.path().join(".local/share")
    }

    /// Runs a line of the shell where this Python is the user's, on a machine without GPUs; returns whether it succeeded, and
    /// all that it printed.
    pub(crate) fn run(&self, line: &str, python: &Path) -> (bool, String) {
        let programs = Path::new(env!("CARGO_BIN_EXE_muster")).parent().expect("a folder").to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path)));
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{{ {line}\n}} 2>&1")]).current_dir(self.path());
        let unset =
            ["MUSTER_DATA_DIR", "MUSTER_SERVER", "MUSTER_PYTHON", "CONDA_PREFIX", "POD_NAME", "PYTHONPATH"];
        for variable in unset {
            command.env_remove(variable);
        }
        // Clusters of frameworks that an active environment lacks use another Python; a named one would be refused.
        let environment = python.parent().and_then(Path::parent).expect("the folder of an environment");
        command.env("PATH", path.expect("a path")).env("HOME", self.path()).env("VIRTUAL_ENV", environment);
        command.env("XDG_DATA_HOME", self.data()).env("XDG_CONFIG_HOME", self.path());
        command.env("XDG_RUNTIME_DIR", self.path().join("run")).env(traces::MARK, self.path());
        command.env("MUSTER_GPUS", "0");
        let output = command.output().expect("a shell");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let find = || Traces::find(self.path(), &self.data().join("muster/local"), None);
        let (mut traces, deadline) = (find(), Instant::now() + END_LIMIT);
        // A server releases its data folder, for which `muster down` waits, a moment before its process ends.
        while !traces.processes.is_empty() && Instant::now() < deadline {
            std::thread::sleep(CHECK_INTERVAL);
            traces = find();
        }
        traces.kill();
        if !std::thread::panicking() {
            traces.assert_none();
        }
    }
}
