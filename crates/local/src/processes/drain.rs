//! Drain of workers before they are stopped: their head moves their data to others and lets their tasks finish.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::Node;
use muster_core::recipe::ClusterRecipe;
use muster_engine::ports::provider::{FencedCall, ProviderError};
use muster_framework_client::FrameworkRequestError;
use muster_frameworks::{
    AfterRetirement, HeadAccess, HeadCommand, LiveWorker, LocalFramework, ProcessSpec, UnreadableResponse,
    WorkerRetirement,
};
use tokio::process::Command;

use super::launch;
use super::node_kind::NodeKind;
use super::node_record::NodeRecord;
use super::{ProcessHost, on_disk};
use crate::shim::RunningNode;

/// Time limit for a drain: running tasks finish, and data moves to other workers.
const DRAIN_WITHIN: Duration = Duration::from_mins(5);

/// Extra time of a drain program, which gets the time limit as an argument and reports what it has done by then.
const PROGRAM_MARGIN: Duration = Duration::from_secs(15);

/// Interval of requests to a draining worker.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A reason why workers could not be drained.
#[derive(Debug, thiserror::Error)]
enum DrainError {
    #[error(transparent)]
    Request(#[from] FrameworkRequestError),
    #[error(transparent)]
    Response(#[from] UnreadableResponse),
    #[error("the profile's properties are invalid: {0}")]
    Recipe(String),
    #[error(transparent)]
    Environment(#[from] ProviderError),
    /// The drain program of the framework failed.
    #[error("{0}")]
    Program(String),
}

impl ProcessHost {
    /// Has the head drain workers. Returns for each drained worker how it ends; workers that could not be drained are
    /// missing.
    pub(super) async fn drain_workers(
        &self,
        call: FencedCall<'_>,
        nodes: &[Node],
    ) -> HashMap<NodeId, AfterRetirement> {
        let none = HashMap::new();
        let Some(framework) = NodeKind::from_profile_type(&call.profile.kind).and_then(NodeKind::framework)
        else {
            return none;
        };
        let Some(head) = self.running_head(call.cluster.id) else { return none };
        match self.try_drain(call, framework, &head, nodes).await {
            Ok(drained) => drained,
            Err(error) => {
                // The workers are stopped nevertheless, and deregister themselves.
                tracing::warn!(cluster = %call.cluster.id, %error, "cannot drain workers");
                none
            }
        }
    }

    async fn try_drain(
        &self,
        call: FencedCall<'_>,
        framework: &dyn LocalFramework,
        head: &HeadAccess,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, AfterRetirement>, DrainError> {
        let alive = self.framework_client.fetch_workers(framework, head).await?;
        let (leaving, workers): (Vec<NodeId>, Vec<LiveWorker>) =
            self.match_workers(call.cluster.id, nodes, alive).into_iter().unzip();
        if workers.is_empty() {
            return Ok(HashMap::new());
        }
        self.mark_draining(call.cluster.id, &leaving)?;
        let draining = self.request_drain(call, framework, head, &workers);
        let answer = self.watch_drain(call.target(), nodes, DRAIN_WITHIN, draining).await?;
        let retired = framework.read_retired(&workers, &answer)?;
        let (drained, undrained): (Vec<_>, Vec<_>) =
            leaving.into_iter().zip(workers).partition(|(_, worker)| retired.contains(&worker.address));
        if !undrained.is_empty() {
            let (cluster, count) = (call.cluster.id, undrained.len());
            tracing::warn!(%cluster, count, "data of workers is lost with them: it could not be moved to other workers");
        }
        Ok(drained
            .into_iter()
            .map(|(id, worker)| (id, framework.after_retirement(&worker, seconds())))
            .collect())
    }

    /// Records that workers are being drained, before the request: a worker whose removal is interrupted gets no more
    /// work and has to be replaced.
    fn mark_draining(&self, cluster: ClusterId, nodes: &[NodeId]) -> Result<(), ProviderError> {
        for node in nodes {
            let folder = self.paths.node(cluster, *node);
            if let Some(record) = NodeRecord::read(&folder) {
                let record = NodeRecord { draining: true, ..record };
                record.write(&folder).map_err(|error| on_disk("the node's folder cannot be used", &error))?;
            }
        }
        Ok(())
    }

    /// Matches nodes with the live workers of their head, by the recorded names.
    pub(super) fn match_workers(
        &self,
        cluster: ClusterId,
        nodes: &[Node],
        alive: Vec<LiveWorker>,
    ) -> Vec<(NodeId, LiveWorker)> {
        let mut alive: HashMap<String, LiveWorker> =
            alive.into_iter().map(|worker| (worker.name.clone(), worker)).collect();
        let to_worker = |node: &Node| {
            let record = NodeRecord::read(&self.paths.node(cluster, node.id))?;
            Some((node.id, alive.remove(&record.name)?))
        };
        nodes.iter().filter_map(to_worker).collect()
    }

    async fn request_drain(
        &self,
        call: FencedCall<'_>,
        framework: &dyn LocalFramework,
        head: &HeadAccess,
        workers: &[LiveWorker],
    ) -> Result<Vec<u8>, DrainError> {
        let recipe = ClusterRecipe::of_cluster(call.cluster, call.profile).map_err(DrainError::Recipe)?;
        let installed = self.find_framework(framework, &recipe.head()).await?;
        let python = installed.python;
        let retirement =
            WorkerRetirement { head, workers, python: &python.to_string_lossy(), within: seconds() };
        match framework.retire_workers(retirement) {
            HeadCommand::Request(ask) => Ok(self.framework_client.fetch_within(&ask, DRAIN_WITHIN).await?),
            HeadCommand::Program(launch) => run_program(&python, &launch).await,
        }
    }

    /// Waits until a drained worker has ended or may be stopped.
    pub(super) async fn wait_until_drained(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        leaving: AfterRetirement,
        running: &RunningNode,
    ) {
        let Some(framework) = NodeKind::from_profile_type(&call.profile.kind).and_then(NodeKind::framework)
        else {
            return;
        };
        let (timeout, idle) = match leaving {
            AfterRetirement::ExitsWithin(within) => (Duration::from_secs(within.into()), None),
            AfterRetirement::StopOnceIdle(ask) => (DRAIN_WITHIN, Some(ask)),
            AfterRetirement::KillNow => return,
        };
        let idle = async {
            let Some(ask) = idle else { return std::future::pending().await };
            loop {
                // A failed request, or an unreadable response, does not mean that the worker is idle.
                let answer = self.framework_client.fetch(&ask).await;
                if answer.is_ok_and(|answer| framework.read_is_idle(&answer).unwrap_or(false)) {
                    return;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let drained = async {
            tokio::select! {
                _ = running.wait_for_exit() => {}
                () = idle => {}
                () = tokio::time::sleep(timeout) => {}
            }
        };
        self.watch_drain(call.target(), std::slice::from_ref(node), timeout, drained).await;
    }
}

fn seconds() -> u32 {
    u32::try_from(DRAIN_WITHIN.as_secs()).unwrap_or(u32::MAX)
}

/// Runs a drain program to its end and returns its output. The program ends when its standard input closes, so it does
/// not outlive a killed server, whose successor would not know of it.
async fn run_program(
    python: &Path,
    ProcessSpec { command, environment, files: _ }: &ProcessSpec,
) -> Result<Vec<u8>, DrainError> {
    let [program, arguments @ ..] = command.as_slice() else {
        return Err(DrainError::Program("the framework has an empty drain command".to_owned()));
    };
    let mut process = Command::new(program);
    process.args(arguments).env_clear().envs(launch::in_venv(python)).envs(environment);
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let within = DRAIN_WITHIN + PROGRAM_MARGIN;
    let late = |_| DrainError::Program(format!("{program} did not end within {} s", within.as_secs()));
    let failed = |error| DrainError::Program(format!("{program}: {error}"));
    let mut running = process.spawn().map_err(failed)?;
    let input = running.stdin.take();
    let ended =
        tokio::time::timeout(within, running.wait_with_output()).await.map_err(late)?.map_err(failed)?;
    drop(input);
    if ended.status.success() {
        return Ok(ended.stdout);
    }
    let errors = String::from_utf8_lossy(&ended.stderr);
    let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no output");
    Err(DrainError::Program(format!("{program} ended with {}: {last}", ended.status)))
}
