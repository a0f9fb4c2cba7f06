//! The handle of a test on an engine in a separate process.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use muster_core::action::{Action, ActionKind};
use muster_core::ids::{ActionId, ClusterId, EngineId, NodeId, ProfileId};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::World;
use super::engine::{EngineRequest, Response};
use super::lines;
use super::program::program;
use crate::Process;

/// A time limit that only a hang reaches.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time settings of an engine, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The duration of the lease.
    pub lease: u32,
    /// The interval between renewals of the lease.
    pub heartbeat: u32,
    /// The interval between polls for work.
    pub safety: u32,
}

/// A running engine, which is killed when this value is dropped.
pub struct Replica {
    process: Process,
    folder: TempDir,
    id: EngineId,
}

impl Replica {
    /// Starts an engine over a database (a file or an address) and a world. Call it from the test's own thread.
    pub async fn start(database: &str, world: &World, pace: Pace) -> Self {
        let folder = new_folder();
        let process = spawn(database, world, pace, folder.path());
        let line = process.wait_for_line("the engine runs as ", PATIENCE).await;
        let id = line.rsplit(' ').next().and_then(|id| id.parse().ok()).expect("it says its id");
        Self { process, folder, id }
    }

    /// Starts an engine that cannot become ready, because its database does not respond; it is killed when the returned
    /// process is dropped.
    pub fn start_in_vain(database: &str, world: &World, pace: Pace) -> (Process, TempDir) {
        let folder = new_folder();
        (spawn(database, world, pace, folder.path()), folder)
    }

    /// The id of the engine at its start.
    pub fn first_id(&self) -> EngineId {
        self.id
    }

    /// The present id of the engine, which changes when it loses its lease.
    pub async fn id(&self) -> EngineId {
        match self.request(&EngineRequest::Name).await {
            Response::Name(id) => id,
            other => panic!("an engine was asked its name and answered {other:?}"),
        }
    }

    /// Creates a cluster, and returns the accepted action.
    pub async fn create(&self, cluster: ClusterId, kind: &str, workers: u32) -> Action {
        self.action(&EngineRequest::Create(cluster, kind.to_owned(), workers)).await
    }

    /// Changes a cluster, and returns the accepted action.
    pub async fn change(&self, cluster: ClusterId, kind: ActionKind, inputs: Value) -> Action {
        self.action(&EngineRequest::Change(cluster, kind, inputs)).await
    }

    /// Creates a node from a stored profile, in a cluster or as an orphan, and returns the accepted action.
    pub async fn create_node(&self, cluster: Option<ClusterId>, profile: ProfileId) -> Action {
        self.action(&EngineRequest::CreateNode(cluster, profile)).await
    }

    /// Changes a node, and returns the accepted action.
    pub async fn change_node(&self, node: NodeId, kind: ActionKind, inputs: Value) -> Action {
        self.action(&EngineRequest::ChangeNode(node, kind, inputs)).await
    }

    /// Waits for the end of an action.
    pub async fn end(&self, action: ActionId) -> Action {
        self.action(&EngineRequest::End(action)).await
    }

    /// Waits until a cluster has no unfinished actions.
    pub async fn rest(&self, cluster: ClusterId) {
        let response = self.request(&EngineRequest::Rest(cluster)).await;
        assert!(matches!(response, Response::Rests), "an engine answered {response:?}");
    }

    /// Creates a cluster, and returns the accepted action or the message of the refusal.
    pub async fn try_create(&self, cluster: ClusterId, kind: &str, workers: u32) -> Result<Action, String> {
        match self.request(&EngineRequest::Create(cluster, kind.to_owned(), workers)).await {
            Response::Action(action) => Ok(*action),
            Response::Refused(why) => Err(why),
            other => panic!("an engine answered {other:?}"),
        }
    }

    async fn action(&self, request: &EngineRequest) -> Action {
        match self.request(request).await {
            Response::Action(action) => *action,
            other => panic!("{request:?} was answered with {other:?}"),
        }
    }

    async fn request(&self, request: &EngineRequest) -> Response {
        let answer =
            tokio::time::timeout(PATIENCE, lines::send_request(&socket_in(self.folder.path()), request))
                .await;
        let answer = answer
            .unwrap_or_else(|_| panic!("no answer to {request:?}; its last lines:\n{}", self.process.tail()));
        answer
            .unwrap_or_else(|error| panic!("{request:?}: {error}; its last lines:\n{}", self.process.tail()))
    }

    /// Kills the engine, as `kill -9` does, and waits for its end.
    pub async fn kill(mut self) {
        self.process.kill();
        self.process.wait_for_exit(PATIENCE).await;
    }

    /// Sends SIGTERM, and waits for the end of the engine.
    pub async fn stop(mut self) -> ExitStatus {
        self.process.terminate();
        self.process.wait_for_exit(PATIENCE).await
    }

    /// Freezes the engine (SIGSTOP).
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues the engine (SIGCONT).
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        kill_process(pid.expect("it was not waited for"), signal).expect("a child can be signalled");
    }

    /// Waits until the log contains this text.
    pub async fn says(&self, words: &str) {
        self.process.wait_for_line(words, PATIENCE).await;
    }

    /// The last lines of the output.
    pub fn tail(&self) -> String {
        self.process.tail()
    }
}

fn new_folder() -> TempDir {
    tempfile::Builder::new().prefix("muster-engine-").tempdir().expect("a folder can be made")
}

fn spawn(database: &str, world: &World, pace: Pace, folder: &Path) -> Process {
    let mut command = Command::new(program("engine"));
    command.args(["--store", database]).arg("--world").arg(world.socket());
    command.arg("--socket").arg(socket_in(folder));
    for (flag, millis) in
        [("--lease", pace.lease), ("--heartbeat", pace.heartbeat), ("--safety", pace.safety)]
    {
        command.arg(flag).arg(millis.to_string());
    }
    Process::spawn("engine", &command)
}

fn socket_in(folder: &Path) -> PathBuf {
    folder.join("engine.sock")
}
