//! Stop of nodes, and removal of their files.

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
use muster_frameworks::{AfterRetirement, LocalFramework};

use super::head::HeadRecord;
use super::node_kind::NodeKind;
use super::retained_tasks::{self, TaskFiles};
use super::{ProcessHost, on_disk, overtaken, paths};
use crate::files;
use crate::shim::{NodeFolder, NodeProcessState, RemoveError, StopError, StopSpec};

/// Grace period of nodes that still run when their cluster is deleted.
const CLEAR_GRACE: Duration = Duration::from_secs(5);

/// The name of the cluster in the folder of retained logs if its row is gone.
const UNKNOWN: &str = "unknown";

impl ProcessHost {
    /// Stops nodes and streams a result for each. Workers are drained first, unless their head stops too. Heads are
    /// stopped last, since stopping workers wait for their head to deregister them.
    pub(super) fn stop_nodes<'a>(
        &'a self,
        call: FencedCall<'a>,
        nodes: Vec<Node>,
    ) -> impl Stream<Item = NodeResult> + Send + 'a {
        let (heads, workers): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|node| node.role == NodeRole::Head);
        let workers = async move {
            let leaving =
                if heads.is_empty() { self.drain_workers(call, &workers).await } else { HashMap::new() };
            let stopped = self.stop_all(call, workers, leaving);
            stopped.chain(self.stop_all(call, heads, HashMap::new()))
        };
        futures::stream::once(workers).flatten()
    }

    fn stop_all<'a>(
        &'a self,
        call: FencedCall<'a>,
        nodes: Vec<Node>,
        mut leaving: HashMap<NodeId, AfterRetirement>,
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
        leaving: Option<AfterRetirement>,
    ) -> Result<(), ProviderError> {
        let folder = self.node_folder(call.target(), node.id);
        let drained = leaving == Some(AfterRetirement::KillNow);
        if let Some(leaving) = leaving
            && let Ok(NodeProcessState::Running(running)) = self.shims.inspect(&folder)
        {
            // A worker that is still running afterwards is stopped below.
            self.wait_until_drained(call, node, leaving, &running).await;
        }
        let stop = match NodeKind::from_profile_type(&call.profile.kind) {
            _ if drained => StopSpec::with_grace(Duration::ZERO),
            Some(kind) => kind.stop_spec(call.profile, node.role),
            None => StopSpec::with_grace(CLEAR_GRACE),
        };
        self.shims.stop(&folder, call.fence, stop).await.map_err(|error| stop_error(&error))?;
        self.lost_workers.forget_worker(node.id);
        self.remove_node_folder(&folder, call.fence).await?;
        let temporary = self.paths.temporary(call.cluster.id, node);
        let removed = tokio::task::spawn_blocking(move || files::remove_folder(&temporary)).await;
        let failed = |error| on_disk("the node's temporary folder cannot be removed", &error);
        removed.map_err(|error| failed(std::io::Error::other(error)))?.map_err(failed)?;
        // The folder of a deleted plain process is in no cluster's folder, so it is removed here.
        if self.has_leftover_folder(call.target(), node.id) && node.status == NodeStatus::Deleting {
            self.retain_logs(&call.cluster.name, call.cluster.id, &folder)?;
            let own = self.paths.standalone_node(node.id);
            return files::remove_folder(&own)
                .map_err(|error| on_disk("the node's folder cannot be used", &error));
        }
        Ok(())
    }

    /// Returns true if a plain process that does not run still has files in its own folder.
    pub(super) fn has_leftover_folder(&self, target: ClusterTarget<'_>, node: NodeId) -> bool {
        matches!(NodeKind::from_profile_type(&target.profile.kind), Some(NodeKind::Process))
            && self.paths.standalone_node(node).exists()
    }

    /// Moves the logs of a node to the folder of retained logs, if there is one.
    fn retain_logs(&self, name: &str, id: ClusterId, folder: &NodeFolder) -> Result<(), ProviderError> {
        let Some(retained) = &self.settings.retained_logs else { return Ok(()) };
        let to = retained.join(paths::retained_logs_name(name, &id.short()));
        paths::retain_logs(folder, &to)
            .map_err(|error| on_disk("logs cannot be moved to the retained logs", &error))
    }

    /// Removes the files of a node except its logs, which stay until the cluster is deleted.
    async fn remove_node_folder(&self, folder: &NodeFolder, fence: Fence) -> Result<(), ProviderError> {
        match self.shims.remove(folder, fence, true).await {
            Ok(()) => Ok(()),
            Err(RemoveError::Refused(refused)) => Err(overtaken(refused)),
            Err(error @ RemoveError::Running) => Err(ProviderError::transient("Running", error.to_string())),
            Err(RemoveError::Io(error)) => Err(on_disk("the node's folder cannot be removed", &error)),
        }
    }

    pub(super) async fn clear_cluster(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let framework = NodeKind::from_profile_type(&call.profile.kind).and_then(NodeKind::framework);
        self.clear_folder(call.cluster.id, &call.cluster.name, Some(call.fence), framework).await
    }

    /// Stops and removes a cluster or node that has no row. Uses the highest fence that its folder has recorded:
    /// without a row no action with a higher fence can exist.
    pub(super) async fn remove_leftover(&self, leftover: ProviderResource) -> Result<(), ProviderError> {
        match leftover {
            ProviderResource::Cluster(id) => self.clear_folder(id, UNKNOWN, None, None).await,
            ProviderResource::Node(id) => {
                let (own, cluster) = (self.paths.standalone_node(id), ClusterId::from_uuid(*id.as_uuid()));
                self.clear_node(NodeFolder::new(&own, id), cluster, UNKNOWN, None).await?;
                files::remove_folder(&own)
                    .map_err(|error| on_disk("the node's folder cannot be used", &error))
            }
        }
    }

    /// Stops the remaining nodes of a cluster, retains their logs, and removes its folder.
    async fn clear_folder(
        &self,
        id: ClusterId,
        name: &str,
        fence: Option<Fence>,
        framework: Option<&'static dyn LocalFramework>,
    ) -> Result<(), ProviderError> {
        self.lost_workers.untrack_cluster(id);
        let disk = |error: std::io::Error| on_disk("the cluster's folder cannot be removed", &error);
        let folders = self.paths.nodes(id).map_err(disk)?;
        let mut cleared: FuturesUnordered<_> =
            folders.into_iter().map(|folder| self.clear_node(folder, id, name, fence)).collect();
        while let Some(result) = cleared.next().await {
            result?;
        }
        if let Some(framework) = framework {
            self.retain_task_output(framework, id, name).await;
        }
        let (cluster, short) = (self.paths.cluster(id), self.short_folder(id)?);
        // Removal may take long. The cluster's folder is last, since it records the path of the short one.
        let remove = move || files::remove_folder(&short).and_then(|()| files::remove_folder(&cluster));
        let removed = tokio::task::spawn_blocking(remove).await;
        removed.map_err(|error| disk(std::io::Error::other(error)))?.map_err(disk)
    }

    /// Moves the output of tasks of a cluster without processes to the retained logs, if there are any. The deletion goes
    /// on if that fails, for example on a full disk.
    async fn retain_task_output(&self, framework: &'static dyn LocalFramework, id: ClusterId, name: &str) {
        let Some(retained) = &self.settings.retained_logs else { return };
        let head = HeadRecord::read(&self.paths, id);
        let files = |folder: NodeFolder| {
            let is_head = head.as_ref().is_some_and(|head| head.is_node(folder.node()));
            let role = if is_head { NodeRole::Head } else { NodeRole::Worker };
            let name: String = paths::read_json(&folder.framework_name_file())?;
            let output = framework.task_output(&role, &name)?;
            Some(TaskFiles { node: folder.node(), folder: self.output_folder(id, &output), output })
        };
        let sources: Vec<TaskFiles> = self.paths.nodes(id).into_iter().flatten().filter_map(files).collect();
        let to = retained.join(paths::retained_logs_name(name, &id.short()));
        let retain = move || retained_tasks::retain(&sources, &to);
        let result = tokio::task::spawn_blocking(retain).await.map_err(std::io::Error::other).flatten();
        if let Err(error) = result {
            tracing::warn!(cluster = %id, %error, "cannot retain the output of tasks");
        }
    }

    async fn clear_node(
        &self,
        folder: NodeFolder,
        cluster: ClusterId,
        name: &str,
        fence: Option<Fence>,
    ) -> Result<(), ProviderError> {
        let highest = || {
            folder.highest_generation().map_err(|error| on_disk("the node's folder cannot be used", &error))
        };
        let fence = fence.map_or_else(highest, Ok)?;
        let stopped = self.shims.stop(&folder, fence, StopSpec::with_grace(CLEAR_GRACE)).await;
        stopped.map_err(|error| stop_error(&error))?;
        // The node's folder is removed before the cluster's: only the node's folder records the socket that a killed
        // shim left.
        self.remove_node_folder(&folder, fence).await?;
        self.retain_logs(name, cluster, &folder)
    }
}

pub(super) fn stop_error(error: &StopError) -> ProviderError {
    match error {
        StopError::Refused(refused) => overtaken(*refused),
        error => ProviderError::transient("NotStopped", error.to_string()),
    }
}
