//! Having workers let go by their head, with what they hold and do.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::Node;
use muster_core::recipe::ClusterRecipe;
use muster_engine::ports::provider::{FencedCall, ProviderError};
use muster_framework_client::FrameworkRequestError;
use muster_frameworks::{Contact, Launch, Leaving, LiveWorker, LocalFramework, Retirement, Tell, Unreadable};
use tokio::process::Command;

use super::kind::Kind;
use super::launch;
use super::seat::Seat;
use super::{Inner, on_disk};
use crate::shim::Running;

/// How long what leaving workers do may take to its end, and what they hold to others.
const RETIRE_WITHIN: Duration = Duration::from_mins(5);

/// How much longer a program may take that lets workers go: it is told when to give up, and says then what it did.
const RUN_LONGER: Duration = Duration::from_secs(15);

/// How often a worker is asked whether something still runs there.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Why a head could not retire workers.
#[derive(Debug, thiserror::Error)]
enum RetireError {
    #[error(transparent)]
    Request(#[from] FrameworkRequestError),
    #[error(transparent)]
    Response(#[from] Unreadable),
    #[error("the profile's properties are invalid: {0}")]
    Recipe(String),
    #[error(transparent)]
    Environment(#[from] ProviderError),
    /// The framework's own program failed.
    #[error("{0}")]
    Program(String),
}

impl Inner {
    /// Has the head let these workers go; what becomes of those that it lets go.
    pub(super) async fn retire(&self, call: FencedCall<'_>, nodes: &[Node]) -> HashMap<NodeId, Leaving> {
        let none = HashMap::new();
        let Some(framework) = Kind::of(&call.profile.kind).and_then(Kind::framework) else { return none };
        let Some(head) = self.living_head(call.cluster.id) else { return none };
        match self.try_retire(call, framework, &head, nodes).await {
            Ok(leaving) => leaving,
            Err(error) => {
                // They are stopped all the same, and say good-bye themselves.
                tracing::warn!(cluster = %call.cluster.id, %error, "workers could not be retired");
                none
            }
        }
    }

    async fn try_retire(
        &self,
        call: FencedCall<'_>,
        framework: &dyn LocalFramework,
        head: &Contact,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, Leaving>, RetireError> {
        let alive = self.framework_client.fetch_workers(framework, head).await?;
        let (leaving, workers): (Vec<NodeId>, Vec<LiveWorker>) =
            self.seated(call.cluster.id, nodes, alive).into_iter().unzip();
        if workers.is_empty() {
            return Ok(HashMap::new());
        }
        self.mark_draining(call.cluster.id, &leaving)?;
        let answer = self.tell(call, framework, head, &workers).await?;
        let retired = framework.retired(&workers, &answer)?;
        let (gone, held): (Vec<_>, Vec<_>) =
            leaving.into_iter().zip(workers).partition(|(_, worker)| retired.contains(&worker.address));
        if !held.is_empty() {
            let (cluster, count) = (call.cluster.id, held.len());
            tracing::warn!(%cluster, count, "what workers hold goes with them: nobody else could take it");
        }
        Ok(gone.into_iter().map(|(id, worker)| (id, framework.leaving(&worker, seconds()))).collect())
    }

    /// Records that workers are drained, before they are: if one of them is kept after all, it is then known that it has to be replaced.
    fn mark_draining(&self, cluster: ClusterId, nodes: &[NodeId]) -> Result<(), ProviderError> {
        for node in nodes {
            let folder = self.places.node(cluster, *node);
            if let Some(seat) = Seat::of(&folder) {
                let seat = Seat { draining: true, ..seat };
                seat.keep(&folder).map_err(|error| on_disk("the node's folder", &error))?;
            }
        }
        Ok(())
    }

    /// Which of these nodes the framework counts, and as which workers.
    pub(super) fn seated(
        &self,
        cluster: ClusterId,
        nodes: &[Node],
        alive: Vec<LiveWorker>,
    ) -> Vec<(NodeId, LiveWorker)> {
        let mut alive: HashMap<String, LiveWorker> =
            alive.into_iter().map(|worker| (worker.name.clone(), worker)).collect();
        let seated = |node: &Node| {
            let seat = Seat::of(&self.places.node(cluster, node.id))?;
            Some((node.id, alive.remove(&seat.name)?))
        };
        nodes.iter().filter_map(seated).collect()
    }

    async fn tell(
        &self,
        call: FencedCall<'_>,
        framework: &dyn LocalFramework,
        head: &Contact,
        workers: &[LiveWorker],
    ) -> Result<Vec<u8>, RetireError> {
        let recipe = ClusterRecipe::of_cluster(call.cluster, call.profile).map_err(RetireError::Recipe)?;
        let installed = self.installed(framework, &recipe.head()).await?;
        let python = installed.python;
        let retirement = Retirement { head, workers, python: &python.to_string_lossy(), within: seconds() };
        match framework.retire(retirement) {
            Tell::Ask(ask) => Ok(self.framework_client.fetch_within(&ask, RETIRE_WITHIN).await?),
            Tell::Run(launch) => run(&python, &launch).await,
        }
    }

    /// Waits until a worker that was let go has ended, or may be ended.
    pub(super) async fn leave(&self, call: FencedCall<'_>, leaving: Leaving, running: &Running) {
        let Some(framework) = Kind::of(&call.profile.kind).and_then(Kind::framework) else { return };
        let (patience, idle) = match leaving {
            Leaving::Ends(within) => (Duration::from_secs(within.into()), None),
            Leaving::Until(ask) => (RETIRE_WITHIN, Some(ask)),
            Leaving::Left => return,
        };
        let idle = async {
            let Some(ask) = idle else { return std::future::pending().await };
            loop {
                // One that does not answer, or not in words that are known, is not known to be idle.
                let answer = self.framework_client.fetch(&ask).await;
                if answer.is_ok_and(|answer| framework.has_left(&answer).unwrap_or(false)) {
                    return;
                }
                tokio::time::sleep(ASK_AGAIN).await;
            }
        };
        tokio::select! {
            _ = running.exited() => {}
            () = idle => {}
            () = tokio::time::sleep(patience) => {}
        }
    }
}

fn seconds() -> u32 {
    u32::try_from(RETIRE_WITHIN.as_secs()).unwrap_or(u32::MAX)
}

/// Runs a program of a framework to its end, and gives what it wrote. The program ends when its standard input is
/// closed, also because this server was killed: the next server would not know of it.
async fn run(python: &Path, Launch { command, environment }: &Launch) -> Result<Vec<u8>, RetireError> {
    let [program, arguments @ ..] = command.as_slice() else {
        return Err(RetireError::Program("there is no command".to_owned()));
    };
    let mut process = Command::new(program);
    process.args(arguments).env_clear().envs(launch::in_venv(python)).envs(environment);
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let within = RETIRE_WITHIN + RUN_LONGER;
    let late = |_| RetireError::Program(format!("{program} did not end within {} s", within.as_secs()));
    let failed = |error| RetireError::Program(format!("{program}: {error}"));
    let mut running = process.spawn().map_err(failed)?;
    let input = running.stdin.take();
    let ended =
        tokio::time::timeout(within, running.wait_with_output()).await.map_err(late)?.map_err(failed)?;
    drop(input);
    if ended.status.success() {
        return Ok(ended.stdout);
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no word");
    Err(RetireError::Program(format!("{program} ended with {}: {last}", ended.status)))
}
