//! Starting nodes, and waiting until they work.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use muster_core::node::{Node, NodeRole};
use muster_engine::provider::{Call, NodeResult, ProviderError};
use muster_frameworks::LocalFramework;

use super::head::Head;
use super::kind::Kind;
use super::seat::Seat;
use super::{Inner, on_disk, place};
use crate::shim::{Found, NodeFolder, Outcome, Running, StartError};

/// Nodes that are started at the same time: they keep the cores busy while they start, so more would only take
/// longer each.
const AT_A_TIME: usize = 8;

/// How often a framework is asked whether a node works: it cannot tell by itself.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Lines of a log that tell why a node ended.
pub(super) const LAST_LINES: usize = 10;

impl Inner {
    /// Makes what a cluster needs beside its nodes, and says at once if its framework is missing.
    pub(super) async fn prepare(&self, call: Call<'_>) -> Result<(), ProviderError> {
        place::make(&self.places.cluster(call.cluster.id))
            .map_err(|error| on_disk("the cluster's folder cannot be made", &error))?;
        let Some(framework) = Kind::of(&call.profile.kind).and_then(Kind::framework) else { return Ok(()) };
        let recipe = muster_core::recipe::ClusterRecipe::of(&call.profile.properties)
            .map_err(|why| ProviderError::permanent("InvalidProfile", why))?;
        let asked = recipe.head().image.map(std::path::PathBuf::from);
        let found = self.environments.find(framework, asked.as_deref()).await;
        found.map(drop).map_err(|missing| ProviderError::permanent("FrameworkMissing", missing.to_string()))
    }

    /// Starts nodes, a result each as they come.
    pub(super) fn start<'a>(
        &'a self,
        call: Call<'a>,
        nodes: Vec<Node>,
    ) -> impl Stream<Item = NodeResult> + Send + 'a {
        let one = move |node: Node| async move {
            let result = self.start_one(call, &node).await;
            NodeResult { node: node.id, result: result.map(Some) }
        };
        futures::stream::iter(nodes).map(one).buffer_unordered(AT_A_TIME)
    }

    async fn start_one(&self, call: Call<'_>, node: &Node) -> Result<String, ProviderError> {
        let folder = self.places.node(call.cluster.id, node.id);
        let running = self.run(call, node, &folder).await?;
        self.exits.watch(call.cluster.id, &running);
        let pid = running.process().map_or_else(String::new, |process| process.pid.to_string());
        tokio::select! {
            works = self.works(call, node, &folder) => works?,
            outcome = running.exited() => return Err(ended(&folder, outcome)),
            () = tokio::time::sleep(self.settings.start_within) => return Err(self.too_slow(&folder)),
        }
        let seat = Seat::of(&folder).unwrap_or_else(|| Seat::new(node, call.fence));
        Seat { works: true, ..seat }.keep(&folder).map_err(|error| on_disk("the node's folder", &error))?;
        Ok(pid)
    }

    /// Starts the process, or finds the one that runs.
    async fn run(&self, call: Call<'_>, node: &Node, folder: &NodeFolder) -> Result<Running, ProviderError> {
        let disk = |error: std::io::Error| on_disk("the node's folder cannot be used", &error);
        let runs = matches!(self.shims.find(folder).map_err(disk)?, Found::Running(_));
        let seat = match Seat::of(folder).filter(|_| runs) {
            Some(seat) => seat,
            None => {
                let seat = Seat::new(node, call.fence);
                folder.make().map_err(disk)?;
                let work = place::work(folder);
                // What an earlier start left there would be taken for this one's.
                match std::fs::remove_dir_all(&work) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(disk(error)),
                    _ => place::make(&work).map_err(disk)?,
                }
                seat.keep(folder).map_err(disk)?;
                seat
            }
        };
        let launch = self.launch(call, node, folder, &seat).await?;
        self.shims.start(folder, &launch).await.map_err(|error| not_started(&error))
    }

    /// Returns once a node works: as its framework says, or as soon as it runs.
    async fn works(&self, call: Call<'_>, node: &Node, folder: &NodeFolder) -> Result<(), ProviderError> {
        let Some(framework) = Kind::of(&call.profile.kind).and_then(Kind::framework) else { return Ok(()) };
        match node.role {
            NodeRole::Head => self.head_works(call, framework, folder).await,
            NodeRole::Worker => self.worker_works(call, framework, folder).await,
        }
    }

    async fn head_works(
        &self,
        call: Call<'_>,
        framework: &dyn LocalFramework,
        folder: &NodeFolder,
    ) -> Result<(), ProviderError> {
        let file = place::work(folder).join(framework.head_file());
        loop {
            // Not there yet, half written, or not answering yet: all of that is asked again.
            if let Ok(text) = tokio::fs::read(&file).await
                && let Ok(endpoints) = framework.endpoints(&text)
                && self.workers(framework, &endpoints).await.is_ok()
            {
                let head = Head::new(folder.node(), framework, &endpoints);
                return head
                    .keep(&self.places, call.cluster.id)
                    .map_err(|error| on_disk("the cluster's folder", &error));
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    async fn worker_works(
        &self,
        call: Call<'_>,
        framework: &dyn LocalFramework,
        folder: &NodeFolder,
    ) -> Result<(), ProviderError> {
        let head = self.head(call)?;
        let name = Seat::of(folder).map(|seat| seat.name);
        loop {
            if let Ok(alive) = self.workers(framework, &head).await
                && alive.iter().any(|worker| Some(&worker.name) == name.as_ref())
            {
                return Ok(());
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    fn too_slow(&self, folder: &NodeFolder) -> ProviderError {
        let seconds = self.settings.start_within.as_secs();
        ProviderError::permanent(
            "StartTimeout",
            with_log(folder, &format!("it did not work within {seconds} s")),
        )
    }
}

fn not_started(error: &StartError) -> ProviderError {
    match error {
        StartError::CannotRun { message, .. } => ProviderError::permanent("CommandNotFound", message.clone()),
        error if error.is_transient() => ProviderError::transient("ShimFailed", error.to_string()),
        error => ProviderError::transient("Refused", error.to_string()),
    }
}

/// What a node that ended says of its end.
fn ended(folder: &NodeFolder, outcome: std::io::Result<Outcome>) -> ProviderError {
    match outcome {
        Ok(Outcome::Ended(end)) => {
            let log = last_lines(folder);
            let reason = if is_port_in_use(&log) { "PortInUse" } else { "NodeExited" };
            ProviderError::permanent(reason, with_log(folder, &end.to_string()))
        }
        Ok(Outcome::Lost) => ProviderError::transient("ShimLost", "its shim was killed while it started"),
        Ok(Outcome::Replaced) => ProviderError::transient("Replaced", "it was started by somebody else"),
        Err(error) => on_disk("its end cannot be read", &error),
    }
}

/// What every framework's log says, in the words of the system, when its port is somebody else's.
fn is_port_in_use(log: &str) -> bool {
    log.contains("ddress already in use") || log.contains("Errno 98")
}

fn last_lines(folder: &NodeFolder) -> String {
    folder.tail(LAST_LINES).unwrap_or_default().join("\n")
}

/// A sentence with the last lines of the node's log behind it.
pub(super) fn with_log(folder: &NodeFolder, sentence: &str) -> String {
    let lines = last_lines(folder);
    if lines.is_empty() { sentence.to_owned() } else { format!("{sentence}; its last lines:\n{lines}") }
}
