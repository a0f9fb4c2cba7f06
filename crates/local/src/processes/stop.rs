//! Letting nodes go, and removing what they leave.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt as _};
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole};
use muster_engine::provider::{Call, NodeResult, ProviderError};
use muster_frameworks::{Endpoints, LiveWorker, LocalFramework};

use super::ask::AskError;
use super::kind::Kind;
use super::seat::Seat;
use super::{Inner, on_disk, place};
use crate::shim::{Found, NodeFolder, RemoveError, Stop, StopError};

/// How long a framework may take to move what leaving workers hold.
const RETIRE_WITHIN: Duration = Duration::from_mins(5);

/// How long a retired worker may take to end by itself.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// How long whatever is found at the deletion of a cluster may take to end.
const CLEAR_WITHIN: Duration = Duration::from_secs(5);

impl Inner {
    /// Stops nodes, a result each as they come. Workers that leave a head are retired first, unless it goes too; a
    /// head goes last, since workers would wait for it to hear their good-bye.
    pub(super) fn stop<'a>(
        &'a self,
        call: Call<'a>,
        nodes: Vec<Node>,
    ) -> impl Stream<Item = NodeResult> + Send + 'a {
        let (heads, workers): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|node| node.role == NodeRole::Head);
        let workers = async move {
            let retired = if heads.is_empty() { self.retire(call, &workers).await } else { HashSet::new() };
            let stopped = self.stop_all(call, workers, retired);
            stopped.chain(self.stop_all(call, heads, HashSet::new()))
        };
        futures::stream::once(workers).flatten()
    }

    fn stop_all<'a>(
        &'a self,
        call: Call<'a>,
        nodes: Vec<Node>,
        retired: HashSet<NodeId>,
    ) -> impl Stream<Item = NodeResult> + Send + 'a {
        let one = move |node: Node| {
            let retired = retired.contains(&node.id);
            async move {
                let result = self.stop_one(call, &node, retired).await;
                NodeResult { node: node.id, result: result.map(|()| None) }
            }
        };
        nodes.into_iter().map(one).collect::<FuturesUnordered<_>>()
    }

    /// Has the head move what these workers hold to others; those that it let go end by themselves.
    async fn retire(&self, call: Call<'_>, nodes: &[Node]) -> HashSet<NodeId> {
        let none = HashSet::new();
        let Some(framework) = Kind::of(&call.profile.kind).and_then(Kind::framework) else { return none };
        let Some(head) = self.living_head(call.cluster.id) else { return none };
        match self.try_retire(call, framework, &head, nodes).await {
            Ok(retired) => retired,
            Err(error) => {
                // They are stopped all the same, and say good-bye themselves.
                tracing::warn!(cluster = %call.cluster.id, %error, "workers could not be retired");
                none
            }
        }
    }

    async fn try_retire(
        &self,
        call: Call<'_>,
        framework: &dyn LocalFramework,
        head: &Endpoints,
        nodes: &[Node],
    ) -> Result<HashSet<NodeId>, AskError> {
        let alive = self.workers(framework, head).await?;
        let mut alive: HashMap<String, LiveWorker> =
            alive.into_iter().map(|worker| (worker.name.clone(), worker)).collect();
        let seated = |node: &Node| {
            let seat = Seat::of(&self.places.node(call.cluster.id, node.id))?;
            Some((node.id, alive.remove(&seat.name)?))
        };
        let (leaving, workers): (Vec<NodeId>, Vec<LiveWorker>) = nodes.iter().filter_map(seated).unzip();
        if workers.is_empty() {
            return Ok(HashSet::new());
        }
        let answer = self.http.ask_within(&framework.retire(head, &workers), RETIRE_WITHIN).await?;
        let retired = framework.retired(&answer).map_err(|error| AskError(error.to_string()))?;
        let (gone, held): (Vec<_>, Vec<_>) =
            leaving.into_iter().zip(workers).partition(|(_, worker)| retired.contains(&worker.address));
        if !held.is_empty() {
            let (cluster, count) = (call.cluster.id, held.len());
            tracing::warn!(%cluster, count, "what workers hold goes with them: nobody else could take it");
        }
        Ok(gone.into_iter().map(|(id, _)| id).collect())
    }

    async fn stop_one(&self, call: Call<'_>, node: &Node, retired: bool) -> Result<(), ProviderError> {
        let folder = self.places.node(call.cluster.id, node.id);
        if retired && let Ok(Found::Running(running)) = self.shims.find(&folder) {
            // One that stays all the same is told below.
            drop(tokio::time::timeout(LEAVE_WITHIN, running.exited()).await);
        }
        let stop = Kind::of(&call.profile.kind)
            .map_or(Stop::within(CLEAR_WITHIN), |kind| kind.stop(call.profile, node.role));
        self.shims.stop(&folder, call.fence, stop).await.map_err(|error| not_stopped(&error))?;
        self.remove(&folder, call).await
    }

    /// Removes what a node leaves; its logs stay until the cluster goes.
    async fn remove(&self, folder: &NodeFolder, call: Call<'_>) -> Result<(), ProviderError> {
        match self.shims.remove(folder, call.fence, true).await {
            Ok(()) => Ok(()),
            Err(error @ (RemoveError::Refused(_) | RemoveError::Running)) => {
                Err(ProviderError::transient("Refused", error.to_string()))
            }
            Err(RemoveError::Io(error)) => Err(on_disk("the node's folder cannot be removed", &error)),
        }
    }

    /// Ends whatever is left of a cluster, puts its logs away where they are kept, and removes its folder.
    pub(super) async fn clear(&self, call: Call<'_>) -> Result<(), ProviderError> {
        let id = call.cluster.id;
        let disk = |error: std::io::Error| on_disk("the cluster's folder cannot be removed", &error);
        let folders = self.places.nodes(id).map_err(disk)?;
        let mut cleared: FuturesUnordered<_> =
            folders.into_iter().map(|folder| self.clear_node(call, folder)).collect();
        while let Some(result) = cleared.next().await {
            result?;
        }
        let cluster = self.places.cluster(id);
        // Frameworks leave large folders.
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(cluster)).await;
        match removed.map_err(|error| disk(std::io::Error::other(error)))? {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(disk(error)),
            _ => Ok(()),
        }
    }

    async fn clear_node(&self, call: Call<'_>, folder: NodeFolder) -> Result<(), ProviderError> {
        let stopped = self.shims.stop(&folder, call.fence, Stop::within(CLEAR_WITHIN)).await;
        stopped.map_err(|error| not_stopped(&error))?;
        // What a shim that was killed left where sockets are is known only as long as there is a folder.
        self.remove(&folder, call).await?;
        let Some(kept) = &self.settings.kept_logs else { return Ok(()) };
        let to = kept.join(format!("{}-{}", call.cluster.name, call.cluster.id.short()));
        place::put_logs_away(&folder, &to).map_err(|error| on_disk("logs cannot be put away", &error))
    }
}

fn not_stopped(error: &StopError) -> ProviderError {
    ProviderError::transient("NotStopped", error.to_string())
}
