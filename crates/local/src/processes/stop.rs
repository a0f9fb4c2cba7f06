//! Letting nodes go, and removing what they leave.

use std::collections::HashMap;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt as _};
use muster_core::action::Fence;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::{Node, NodeRole, NodeStatus};
use muster_engine::ports::provider::{
    ClusterTarget, FencedCall, NodeResult, ProviderError, ProviderResource,
};
use muster_frameworks::Leaving;

use super::kind::Kind;
use super::{Inner, on_disk, overtaken, place};
use crate::files;
use crate::shim::{Found, NodeFolder, RemoveError, Stop, StopError};

/// How long whatever is found at the deletion of a cluster may take to end.
const CLEAR_WITHIN: Duration = Duration::from_secs(5);

/// The name of a cluster whose row is gone.
const UNKNOWN: &str = "unknown";

impl Inner {
    /// Stops nodes, a result each as they come. Workers that leave a head are retired first, unless it goes too; a
    /// head goes last, since workers would wait for it to hear their good-bye.
    pub(super) fn stop<'a>(
        &'a self,
        call: FencedCall<'a>,
        nodes: Vec<Node>,
    ) -> impl Stream<Item = NodeResult> + Send + 'a {
        let (heads, workers): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|node| node.role == NodeRole::Head);
        let workers = async move {
            let leaving = if heads.is_empty() { self.retire(call, &workers).await } else { HashMap::new() };
            let stopped = self.stop_all(call, workers, leaving);
            stopped.chain(self.stop_all(call, heads, HashMap::new()))
        };
        futures::stream::once(workers).flatten()
    }

    fn stop_all<'a>(
        &'a self,
        call: FencedCall<'a>,
        nodes: Vec<Node>,
        mut leaving: HashMap<NodeId, Leaving>,
    ) -> impl Stream<Item = NodeResult> + Send + 'a {
        let one = move |node: Node| {
            let leaving = leaving.remove(&node.id);
            async move {
                let result = self.stop_one(call, &node, leaving).await;
                NodeResult { node: node.id, result: result.map(|()| None) }
            }
        };
        nodes.into_iter().map(one).collect::<FuturesUnordered<_>>()
    }

    async fn stop_one(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        leaving: Option<Leaving>,
    ) -> Result<(), ProviderError> {
        let folder = self.folder(call.target(), node.id);
        let left = leaving == Some(Leaving::Left);
        if let Some(leaving) = leaving
            && let Ok(Found::Running(running)) = self.shims.find(&folder)
        {
            // One that stays all the same is told below.
            self.leave(call, leaving, &running).await;
        }
        let stop = match Kind::of(&call.profile.kind) {
            _ if left => Stop::within(Duration::ZERO),
            Some(kind) => kind.stop(call.profile, node.role),
            None => Stop::within(CLEAR_WITHIN),
        };
        self.shims.stop(&folder, call.fence, stop).await.map_err(|error| not_stopped(&error))?;
        self.census.forget(node.id);
        self.remove(&folder, call.fence).await?;
        let temporary = self.places.temporary(call.cluster.id, node);
        let removed = tokio::task::spawn_blocking(move || files::remove_folder(&temporary)).await;
        let failed = |error| on_disk("the node's temporary folder cannot be removed", &error);
        removed.map_err(|error| failed(std::io::Error::other(error)))?.map_err(failed)?;
        // It does not come back, and no cluster's folder is removed that it would go with.
        if self.leaves(call.target(), node.id) && node.status == NodeStatus::Deleting {
            self.put_away(&call.cluster.name, call.cluster.id, &folder)?;
            let own = self.places.own(node.id);
            return files::remove_folder(&own).map_err(|error| on_disk("the node's folder", &error));
        }
        Ok(())
    }

    /// Whether a node that is in no cluster's folder has left something in its own.
    pub(super) fn leaves(&self, target: ClusterTarget<'_>, node: NodeId) -> bool {
        matches!(Kind::of(&target.profile.kind), Some(Kind::Process)) && self.places.own(node).exists()
    }

    /// Puts the logs of a node away where they are kept.
    fn put_away(&self, name: &str, id: ClusterId, folder: &NodeFolder) -> Result<(), ProviderError> {
        let Some(kept) = &self.settings.kept_logs else { return Ok(()) };
        let to = kept.join(place::kept_name(name, &id.short()));
        place::put_logs_away(folder, &to).map_err(|error| on_disk("logs cannot be put away", &error))
    }

    /// Removes what a node leaves; its logs stay until the cluster goes.
    async fn remove(&self, folder: &NodeFolder, fence: Fence) -> Result<(), ProviderError> {
        match self.shims.remove(folder, fence, true).await {
            Ok(()) => Ok(()),
            Err(RemoveError::Refused(refused)) => Err(overtaken(refused)),
            Err(error @ RemoveError::Running) => Err(ProviderError::transient("Running", error.to_string())),
            Err(RemoveError::Io(error)) => Err(on_disk("the node's folder cannot be removed", &error)),
        }
    }

    pub(super) async fn clear(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.clear_folder(call.cluster.id, &call.cluster.name, Some(call.fence)).await
    }

    /// Ends and removes what has no row, with the highest fence that it has seen: an action with a higher one has no row
    /// either.
    pub(super) async fn remove_leftover(&self, leftover: ProviderResource) -> Result<(), ProviderError> {
        match leftover {
            ProviderResource::Cluster(id) => self.clear_folder(id, UNKNOWN, None).await,
            ProviderResource::Node(id) => {
                let (own, cluster) = (self.places.own(id), ClusterId::from_uuid(*id.as_uuid()));
                self.clear_node(NodeFolder::new(&own, id), cluster, UNKNOWN, None).await?;
                files::remove_folder(&own).map_err(|error| on_disk("the node's folder", &error))
            }
        }
    }

    /// Ends whatever is left of a cluster, puts its logs away where they are kept, and removes its folder.
    async fn clear_folder(
        &self,
        id: ClusterId,
        name: &str,
        fence: Option<Fence>,
    ) -> Result<(), ProviderError> {
        self.census.exclude(id);
        let disk = |error: std::io::Error| on_disk("the cluster's folder cannot be removed", &error);
        let folders = self.places.nodes(id).map_err(disk)?;
        let mut cleared: FuturesUnordered<_> =
            folders.into_iter().map(|folder| self.clear_node(folder, id, name, fence)).collect();
        while let Some(result) = cleared.next().await {
            result?;
        }
        let (cluster, short) = (self.places.cluster(id), self.short(id)?);
        // Frameworks leave large folders. Where the short one is, the other knows: so that goes last.
        let remove = move || files::remove_folder(&short).and_then(|()| files::remove_folder(&cluster));
        let removed = tokio::task::spawn_blocking(remove).await;
        removed.map_err(|error| disk(std::io::Error::other(error)))?.map_err(disk)
    }

    async fn clear_node(
        &self,
        folder: NodeFolder,
        cluster: ClusterId,
        name: &str,
        fence: Option<Fence>,
    ) -> Result<(), ProviderError> {
        let highest = || folder.highest_generation().map_err(|error| on_disk("the node's folder", &error));
        let fence = fence.map_or_else(highest, Ok)?;
        let stopped = self.shims.stop(&folder, fence, Stop::within(CLEAR_WITHIN)).await;
        stopped.map_err(|error| not_stopped(&error))?;
        // What a shim that was killed left where sockets are is known only as long as there is a folder.
        self.remove(&folder, fence).await?;
        self.put_away(name, cluster, &folder)
    }
}

pub(super) fn not_stopped(error: &StopError) -> ProviderError {
    match error {
        StopError::Refused(refused) => overtaken(*refused),
        error => ProviderError::transient("NotStopped", error.to_string()),
    }
}
