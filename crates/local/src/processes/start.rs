//! Start of nodes, until they are ready.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt as _};
use muster_core::node::{Node, NodeRole};
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_engine::ports::provider::{FencedCall, NodeResult, ProviderError};
use muster_frameworks::{LocalFramework, WorkerNaming};

use super::exit_reason::{exit_error, with_log};
use super::launch::FrameworkCache;
use super::node_kind::NodeKind;
use super::node_record::NodeRecord;
use super::readiness::LiveWorkersCache;
use super::stop::stop_error;
use super::{ProcessHost, on_disk, overtaken, paths};
use crate::files;
use crate::shim::{NodeFolder, NodeProcessState, RunningNode, StartError, StopSpec};

/// The number of concurrent starts per core. Starting nodes keep the cores busy, so more of them would only slow down
/// each other.
const STARTS_PER_CORE: usize = 4;

/// Grace period of a node that did not become ready.
const FAILED_START_GRACE: Duration = Duration::from_secs(2);

/// Results that nodes of one batch share.
#[derive(Default)]
struct StartBatch {
    live_workers: LiveWorkersCache,
    frameworks: FrameworkCache,
}

impl ProcessHost {
    /// Creates the folder of a cluster, and checks that its framework is installed.
    pub(super) async fn prepare_cluster(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        files::make_folder(&self.paths.cluster(call.cluster.id))
            .and_then(|()| self.record_database(&self.paths.cluster(call.cluster.id)))
            .map_err(|error| on_disk("the cluster's folder cannot be created", &error))?;
        // The framework is checked again, since it may have been removed after the request was admitted.
        self.check_framework(call.profile).await
    }

    /// Starts nodes and streams a result for each.
    pub(super) fn start_nodes<'a>(
        &'a self,
        call: FencedCall<'a>,
        nodes: Vec<Node>,
    ) -> impl Stream<Item = NodeResult> + Send + 'a {
        let batch = Arc::new(StartBatch::default());
        // Nodes that may wait for devices do not delay the others. The number of devices bounds how many start at a time.
        let (with_devices, others): (Vec<Node>, Vec<Node>) = nodes
            .into_iter()
            .partition(|node| Self::requested_devices(call, node).is_ok_and(|devices| devices > 0));
        let one = move |node: Node| {
            let batch = Arc::clone(&batch);
            async move {
                let result = self.start_one(call, &node, &batch).await;
                NodeResult { node: node.id, result: result.map(Some) }
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let with_devices = with_devices.into_iter().map(one.clone()).collect::<FuturesUnordered<_>>();
        let others = futures::stream::iter(others).map(one).buffer_unordered(STARTS_PER_CORE * cores);
        futures::stream::select(with_devices, others)
    }

    async fn start_one(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        batch: &StartBatch,
    ) -> Result<String, ProviderError> {
        let folder = self.node_folder(call.target(), node.id);
        self.stop_unusable(call, node, &folder).await?;
        let reservation = tokio::select! {
            // Biased, because the head may have ended while the node waited for devices.
            biased;
            lost = self.wait_for_head_loss(call, node) => return Err(lost),
            reservation = self.reserve_devices(call, node) => reservation?,
        };
        let devices = &reservation.devices;
        let framework = NodeKind::from_profile_type(&call.profile.kind).and_then(NodeKind::framework);
        if !framework.is_some_and(LocalFramework::starts_one_by_one) {
            return self.start_and_wait(call, node, &folder, devices, batch).await;
        }
        let permit = tokio::select! {
            // Biased, because the head may have ended while another start held the permit.
            biased;
            lost = self.wait_for_head_loss(call, node) => return Err(lost),
            permit = self.start_limiter.acquire(call.cluster.id) => permit,
        };
        permit.hold_for(self.start_and_wait(call, node, &folder, devices, batch)).await
    }

    async fn start_and_wait(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
        devices: &[u32],
        batch: &StartBatch,
    ) -> Result<String, ProviderError> {
        let (running, record) = self.start_process(call, node, folder, devices, batch).await?;
        self.exit_watcher.watch(&running);
        let pid = running.process().map_or_else(String::new, |process| process.pid.to_string());
        tokio::select! {
            ready = self.wait_until_ready(call, node, folder, &record, &batch.live_workers) => ready?,
            outcome = running.wait_for_exit() => return Err(exit_error(folder, outcome)),
            lost = self.wait_for_head_loss(call, node) => return Err(lost),
            () = tokio::time::sleep(self.settings.start_timeout) => {
                return Err(self.stop_slow_start(call, folder).await);
            }
        }
        NodeRecord { was_ready: true, ..record }
            .write(folder)
            .map_err(|error| on_disk("the node's folder cannot be used", &error))?;
        Ok(pid)
    }

    /// Starts the process, or adopts the running one.
    async fn start_process(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
        devices: &[u32],
        batch: &StartBatch,
    ) -> Result<(RunningNode, NodeRecord), ProviderError> {
        let disk = |error: std::io::Error| on_disk("the node's folder cannot be used", &error);
        let runs = matches!(self.shims.inspect(folder).map_err(disk)?, NodeProcessState::Running(_));
        let record = match NodeRecord::read(folder).filter(|_| runs) {
            Some(record) => record,
            None => {
                let framework = NodeKind::from_profile_type(&call.profile.kind).and_then(NodeKind::framework);
                if let Some(framework) = framework.filter(|_| node.role == NodeRole::Head) {
                    self.reserve_head_ports(framework, call.cluster.id).await?;
                    files::make_folder(&self.paths.preserved(call.cluster.id)).map_err(disk)?;
                    self.make_short_folder(call.cluster.id)?;
                    self.record_versions(framework, call, node, &batch.frameworks).await?;
                }
                if framework.is_some() {
                    self.make_temporary_folder(call.cluster.id, node)?;
                }
                let names = framework.map_or(WorkerNaming::Free, LocalFramework::worker_naming);
                folder.create().map_err(disk)?;
                files::write(&folder.name_file(), &node.name).map_err(disk)?;
                if matches!(NodeKind::from_profile_type(&call.profile.kind), Some(NodeKind::Process)) {
                    self.record_database(&self.paths.standalone_node(node.id)).map_err(disk)?;
                }
                files::make_empty_folder(&paths::working_folder(folder)).map_err(disk)?;
                let (gpus, now) = (devices.to_vec(), SystemClock.now());
                let record =
                    NodeRecord { gpus, ..NodeRecord::new(call.cluster, node, call.fence, names, now) };
                record.write(folder).map_err(disk)?;
                files::write(&folder.framework_name_file(), &record.name).map_err(disk)?;
                record
            }
        };
        let launch = self.launch(call, node, folder, &record, &batch.frameworks).await?;
        let running = self.shims.start(folder, &launch).await.map_err(|error| start_error(&error))?;
        Ok((running, record))
    }

    /// Stops a running process to which the head gives no more work, so that a new one is started.
    async fn stop_unusable(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
    ) -> Result<(), ProviderError> {
        if NodeRecord::read(folder).is_some_and(|record| record.draining)
            || self.lost_workers.is_missing(node.id)
        {
            let stopped = self.shims.stop(folder, call.fence, StopSpec::with_grace(FAILED_START_GRACE)).await;
            stopped.map_err(|error| stop_error(&error))?;
            self.lost_workers.forget_worker(node.id);
        }
        Ok(())
    }

    /// Stops a node that did not become ready in time, and returns the error of its start.
    async fn stop_slow_start(&self, call: FencedCall<'_>, folder: &NodeFolder) -> ProviderError {
        let message = format!("it was not ready within {} s", self.settings.start_timeout.as_secs());
        let error = ProviderError::permanent("StartTimeout", with_log(folder, &message));
        if let Err(error) =
            self.shims.stop(folder, call.fence, StopSpec::with_grace(FAILED_START_GRACE)).await
        {
            tracing::warn!(node = %folder.node(), %error, "cannot stop a node that was not ready in time");
        }
        error
    }
}

fn start_error(error: &StartError) -> ProviderError {
    match error {
        StartError::CannotRun { message, .. } => ProviderError::permanent("CommandNotFound", message.clone()),
        StartError::Refused(refused) => overtaken(*refused),
        error => ProviderError::transient("ShimFailed", error.to_string()),
    }
}
