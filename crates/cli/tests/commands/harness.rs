//! The harness of these tests: a data folder, the program, and the server that runs there. Dropping it kills the server.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use muster_testkit::{Process, ProcessFolder, lives};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Bound of all waits, far longer than they take; only a hang reaches it.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// The output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Output {
    /// Asserts that the command succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// Parses standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).expect("JSON")
    }
}

/// A temporary folder with a data folder and user settings.
pub(crate) struct Harness {
    folder: ProcessFolder,
}

impl Harness {
    pub(crate) fn new() -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        Self { folder: tempfile::tempdir().expect("a temporary folder").into() }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The user's configuration folder, which may not exist.
    pub(crate) fn settings(&self) -> PathBuf {
        self.folder.path().join("config/muster")
    }

    /// Builds a command of the program; servers that it starts have simulated nodes and random ports.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("MUSTER_") || name == "POD_NAME" || name == "VIRTUAL_ENV" {
                command.env_remove(&*name);
            }
        }
        command.args(arguments).env("MUSTER_DATA_DIR", self.data()).env("MUSTER_DEV", "true");
        command.env("XDG_CONFIG_HOME", self.folder.path().join("config"));
        command.env("MUSTER_LISTEN", "127.0.0.1:0").env("MUSTER_GRPC_LISTEN", "127.0.0.1:0");
        command
    }

    /// Builds a shell command in which `"$@"` is the program with these arguments.
    pub(crate) fn shell(&self, line: &str, arguments: &[&str]) -> Command {
        let program = self.command(arguments);
        let mut shell = Command::new("sh");
        shell.args(["-c", line, "sh"]).arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell
    }

    pub(crate) fn muster(&self, arguments: &[&str]) -> Output {
        run(&mut self.command(arguments))
    }

    /// Starts a command that runs in parallel to the test.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Process {
        Process::spawn("muster", &self.command(arguments))
    }

    /// Starts a server that the test can kill.
    pub(crate) async fn serve(&self, arguments: &[&str]) -> Process {
        self.serve_by(&self.command(&[&["serve"], arguments].concat())).await
    }

    /// Starts a server with a modified command.
    pub(crate) async fn serve_by(&self, command: &Command) -> Process {
        let server = Process::spawn("muster", command);
        server.wait_for_line("serving", TIMEOUT).await;
        server
    }

    /// Reads the server's announcement.
    pub(crate) fn announced(&self) -> Option<Value> {
        let text = std::fs::read(self.data().join("server.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Kills the server that a command started.
    pub(crate) fn kill_server(&self) {
        self.end_server(Signal::KILL);
    }

    /// Stops the server that a command started, in order.
    pub(crate) fn stop_server(&self) {
        self.end_server(Signal::TERM);
    }

    fn end_server(&self, signal: Signal) {
        let Some(pid) = self.announced().and_then(|announced| announced["pid"].as_i64()) else { return };
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_ours = String::from_utf8_lossy(&command).contains(&*self.data().to_string_lossy());
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|_| is_ours) else { return };
        let _ = kill_process(pid, signal);
        let deadline = Instant::now() + TIMEOUT;
        // Wait for the process, not the lock: another command may start the next server at once.
        while lives(pid.as_raw_nonzero().get()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.data().join("server.log")).unwrap_or_default()
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        // A server that a command started is not a child of this process.
        self.kill_server();
    }
}

/// Returns true if a server holds this lock.
pub(crate) fn is_locked(file: &Path) -> bool {
    File::open(file).is_ok_and(|lock| lock.try_lock_shared().is_err())
}

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("an exit code, not a signal");
    Output { code, out: text(output.stdout), err: text(output.stderr) }
}

/// Returns the arguments that create a cluster of simulated nodes.
pub(crate) fn create<'a>(name: &'a str, workers: &'a str) -> Vec<&'a str> {
    vec!["create", name, "--profile", "simulated.node-1.0", "--workers", workers]
}

/// Returns profile properties with which nodes take this many seconds to start.
pub(crate) fn slow(seconds: u32) -> String {
    format!(r#"{{"metadata": {{"simulated_wait_time": {seconds}}}}}"#)
}
