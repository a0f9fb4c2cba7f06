//! The provider `local`: nodes are processes of this machine, each under its shim.
//!
//! [`NodeKind`] distinguishes frameworks from plain commands, and `muster-frameworks` has what is particular to a
//! framework. This module has what is common to all nodes: their folders, start, readiness, observation, drain and
//! removal.

mod activity;
mod capacity;
mod devices;
mod drain;
mod drain_progress;
mod exit_reason;
mod exit_watcher;
mod head;
mod jobs;
mod launch;
mod logs;
mod lost_workers;
mod meter;
mod node_kind;
mod node_record;
mod observe;
mod paths;
mod ports;
mod readiness;
mod retained_logs;
mod retained_tasks;
mod secret;
mod start;
mod start_limiter;
mod stop;
mod task_output;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use muster_core::capacity::Capacity;
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, InstanceId, NodeId};
use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_core::profile::{Profile, ProfileType};
use muster_core::recipe::ClusterRecipe;
use muster_engine::ports::images::ImageBuilder;
use muster_engine::ports::jobs::JobRunner;
use muster_engine::ports::node_meter::NodeMeter;
use muster_engine::ports::provider::{
    Capabilities, ClusterTarget, ConfigSetProvider, FencedCall, INVALID, LogLines, LogQuery, LogText,
    Membership, NodeProvider, NodeResult, Observed, ProcessProvider, Provider, ProviderError,
    ProviderResource, StoredLog, UpdateOutcome, WorldChange,
};
use muster_framework_client::FrameworkClient;
use muster_frameworks::{LocalFramework, OutputFolder, TaskOutput};

use crate::config_sets::ConfigFolder;
use crate::environments::{Environments, PYTHON_VARIABLE};
use crate::host_processes::HostProcesses;
use crate::shim::{LogLimits, NodeFolder, Shims, StaleGeneration};
use devices::DeviceReservations;
use drain_progress::DrainProgress;
use exit_watcher::ExitWatcher;
use logs::LogFollow;
use lost_workers::LostWorkers;
use node_kind::NodeKind;
use node_record::NodeRecord;
use paths::LocalPaths;
use ports::PortReservations;
use start_limiter::StartLimiter;

/// Settings of the local provider.
#[derive(Debug, Clone)]
pub struct LocalSettings {
    /// The folder of all clusters.
    pub folder: PathBuf,
    /// Limits of the retained output of a node.
    pub log: LogLimits,
    /// The folder for logs of deleted clusters; if none, logs are deleted with their cluster.
    pub retained_logs: Option<PathBuf>,
    /// Time limit from the start of a node until it is ready.
    pub start_timeout: Duration,
    /// Number of accelerators; detected if none is given.
    pub gpus: Option<u32>,
    /// Id of the database that has the rows of these clusters.
    pub database: String,
    /// The folder of configuration sets.
    pub configs: PathBuf,
}

/// The provider of local processes. Handles are cheap to clone.
#[derive(Clone)]
pub struct LocalProvider {
    inner: Arc<ProcessHost>,
}

struct ProcessHost {
    instance: InstanceId,
    settings: LocalSettings,
    paths: LocalPaths,
    shims: Shims,
    environments: Environments,
    framework_client: FrameworkClient,
    exit_watcher: ExitWatcher,
    port_reservations: PortReservations,
    start_limiter: StartLimiter,
    lost_workers: LostWorkers,
    drain_progress: DrainProgress,
    devices: DeviceReservations,
}

impl LocalProvider {
    /// Creates the provider of one data folder.
    pub fn new(
        instance: InstanceId,
        settings: LocalSettings,
        shims: Shims,
        environments: Environments,
    ) -> Self {
        let paths = LocalPaths::new(settings.folder.clone());
        let framework_client = FrameworkClient::new(HashMap::new());
        let exit_watcher = ExitWatcher::new(shims.clone());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let inner = ProcessHost {
            instance,
            settings,
            paths,
            shims,
            environments,
            framework_client,
            exit_watcher,
            port_reservations: PortReservations::default(),
            start_limiter: StartLimiter::new(cores),
            lost_workers: LostWorkers::default(),
            drain_progress: DrainProgress::default(),
            devices: DeviceReservations::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Removes logs of clusters that were deleted more than `retention` ago.
    pub async fn purge_logs(&self, retention: Duration) {
        let Some(folder) = self.inner.settings.retained_logs.clone() else { return };
        let purge = move || retained_logs::purge_old(&folder, retention, std::time::SystemTime::now());
        match tokio::task::spawn_blocking(purge).await {
            Ok(Ok(0)) => {}
            Ok(Ok(count)) => tracing::info!(count, "removed old logs of deleted clusters"),
            Ok(Err(error)) => tracing::warn!(%error, "cannot remove old logs"),
            Err(error) => tracing::warn!(%error, "the removal of old logs panicked"),
        }
    }
}

#[async_trait]
impl Provider for LocalProvider {
    fn instance(&self) -> &InstanceId {
        &self.inner.instance
    }

    fn capabilities(&self, kind: &ProfileType, flavor: Option<&str>) -> Option<Capabilities> {
        if flavor.is_some() {
            return None;
        }
        let kind = NodeKind::from_profile_type(kind)?;
        let framework = kind.framework();
        Some(Capabilities {
            membership: Membership::Individual,
            head: framework.is_some(),
            workers_outlive_head: framework.is_none_or(LocalFramework::workers_outlive_head),
            several_groups: framework.is_some_and(LocalFramework::several_groups),
            orphans: framework.is_none(),
            choose_victims: true,
            update_in_place: false,
            heals_by_default: framework.is_some(),
            adopt: false,
            reports_activity: framework.is_some(),
            supports_placement: false,
            reports_machines: false,
        })
    }

    fn node_provider(self: Arc<Self>) -> Option<Arc<dyn NodeProvider>> {
        Some(self)
    }

    fn process_provider(self: Arc<Self>) -> Option<Arc<dyn ProcessProvider>> {
        Some(Arc::new(HostProcesses))
    }

    fn image_builder(self: Arc<Self>) -> Option<Arc<dyn ImageBuilder>> {
        Some(Arc::new(self.inner.environments.clone()))
    }

    fn job_runner(self: Arc<Self>) -> Option<Arc<dyn JobRunner>> {
        Some(self)
    }

    fn node_meter(self: Arc<Self>) -> Option<Arc<dyn NodeMeter>> {
        Some(self)
    }

    fn config_set_provider(self: Arc<Self>) -> Option<Arc<dyn ConfigSetProvider>> {
        Some(Arc::new(ConfigFolder::new(self.inner.settings.configs.clone())))
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        match NodeKind::from_profile_type(&profile.kind) {
            Some(kind) => kind.check_profile(profile),
            None => Err(launch::unsupported_type(profile)),
        }
    }

    async fn admit(&self, profile: &Profile, flavor: Option<&str>) -> Result<(), ProviderError> {
        if let Some(flavor) = flavor {
            let message = format!(
                "flavor '{flavor}' is not supported by the provider 'local', which has no flavors: omit it, or choose another \
                 provider"
            );
            return Err(ProviderError::permanent(INVALID, message));
        }
        self.inner.check_framework(profile).await
    }

    async fn admit_cluster(&self, cluster: &Cluster, profile: &Profile) -> Result<(), ProviderError> {
        self.inner.check_image(cluster, profile).await
    }

    async fn admit_update(&self, target: ClusterTarget<'_>, before: &Cluster) -> Result<(), ProviderError> {
        self.inner.check_framework_after_update(target, before).await
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.inner.observe_nodes(target, nodes)
    }

    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
        query: LogQuery,
    ) -> Result<LogLines, ProviderError> {
        let failed = |error: std::io::Error| on_disk("the log cannot be read", &error);
        let follow = if query.follow { LogFollow::UntilRemoved } else { LogFollow::No };
        let lines =
            logs::read_log(&self.inner.node_folder(target, node.id), query, follow).await.map_err(failed)?;
        let lines = lines.map_ok(LogText::of_node);
        let Some((folder, output)) = self.inner.task_output(target, node).filter(|_| query.task_output)
        else {
            return Ok(lines.map_err(failed).boxed());
        };
        let of_tasks = task_output::read_task_output(folder, output, query).await.map_err(failed)?;
        if !query.follow {
            return Ok(lines.chain(of_tasks).map_err(failed).boxed());
        }
        // Files of tasks have no end, so the stream ends with the log of the node.
        let lines = lines.map_ok(Some).chain(futures::stream::once(async { Ok(None) }));
        let all = futures::stream::select(lines, of_tasks.map_ok(Some));
        Ok(all
            .try_take_while(|part| std::future::ready(Ok(part.is_some())))
            .try_filter_map(async |part| Ok(part))
            .map_err(failed)
            .boxed())
    }

    async fn stored_logs(&self, cluster: &Cluster, query: LogQuery) -> Result<Vec<StoredLog>, ProviderError> {
        let Some(kept) = &self.inner.settings.retained_logs else { return Ok(Vec::new()) };
        let folder = kept.join(paths::retained_logs_name(&cluster.name, &cluster.id.short()));
        // The search for the first lines may read all files.
        let of_nodes = folder.clone();
        let read = tokio::task::spawn_blocking(move || retained_logs::read_logs(&of_nodes, query)).await;
        let read = read.map_err(std::io::Error::other).flatten();
        let failed = |error: std::io::Error| on_disk("stored logs cannot be read", &error);
        let logs = read.map_err(failed)?;
        if !query.task_output {
            return Ok(logs);
        }
        let mut with_tasks = Vec::with_capacity(logs.len());
        for StoredLog { node, name, lines } in logs {
            let lines = retained_tasks::add_to(lines, &folder, node, cluster.framework, query).await;
            with_tasks.push(StoredLog { node, name, lines: lines.map_err(failed)? });
        }
        Ok(with_tasks)
    }

    async fn environment(
        &self,
        target: ClusterTarget<'_>,
    ) -> Result<BTreeMap<String, String>, ProviderError> {
        let Some(framework) = NodeKind::from_profile_type(&target.profile.kind).and_then(NodeKind::framework)
        else {
            return Ok(BTreeMap::new());
        };
        let head = self.inner.running_head(target.cluster.id);
        let down = || {
            ProviderError::permanent(
                "NoHead",
                "the head of the cluster is not running, so there is nothing to connect to: wait, or restart the head",
            )
        };
        let head = head.ok_or_else(down)?;
        let recipe = ClusterRecipe::of_cluster(target.cluster, target.profile)
            .map_err(|error| ProviderError::permanent("InvalidProfile", error))?;
        let installed = self.inner.find_framework(framework, &recipe.head()).await?;
        let python = installed.python.to_string_lossy().into_owned();
        let own = framework.client_environment(&head, &python);
        Ok(installed.variables.into_iter().chain(own).chain([(PYTHON_VARIABLE.to_owned(), python)]).collect())
    }

    fn capacity(&self) -> Option<Capacity> {
        Some(capacity::of_machine(self.inner.settings.gpus))
    }

    async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        let activity = self.inner.activity(target).await?;
        Ok(self.inner.limit_to_head_uptime(target.cluster.id, activity))
    }

    async fn load(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, u64>, ProviderError> {
        self.inner.load(target, nodes).await
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        futures::stream::select(
            self.inner.exit_watcher.changes(),
            Arc::clone(&self.inner).lost_worker_changes(),
        )
        .boxed()
    }
}

#[async_trait]
impl NodeProvider for LocalProvider {
    fn start_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        self.inner.start_nodes(call, nodes).boxed()
    }

    fn stop_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        self.inner.stop_nodes(call, nodes).boxed()
    }

    fn obstacles(&self, _: ClusterTarget<'_>, changing: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        let mut obstacles = self.inner.drain_progress.reasons(changing);
        obstacles.extend(self.inner.devices.obstacles(changing));
        obstacles
    }

    fn gpu_devices(&self, target: ClusterTarget<'_>, nodes: &[NodeId]) -> HashMap<NodeId, Vec<u32>> {
        self.inner.devices_of(target, nodes)
    }

    async fn update_node(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        before: &Profile,
    ) -> Result<UpdateOutcome, ProviderError> {
        let outdated = launch::is_outdated(call, node, before)?;
        Ok(if outdated { UpdateOutcome::MustRecreate } else { UpdateOutcome::InPlace })
    }

    async fn prepare_cluster(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.inner.prepare_cluster(call).await
    }

    async fn clear_cluster(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.inner.clear_cluster(call).await
    }

    async fn list_resources(&self) -> Result<Vec<ProviderResource>, ProviderError> {
        let (paths, database) = (self.inner.paths.clone(), self.inner.settings.database.clone());
        let listed = tokio::task::spawn_blocking(move || paths.resources_of(&database)).await;
        let failed = |error| on_disk("the folders of clusters cannot be listed", &error);
        listed.map_err(|error| failed(std::io::Error::other(error)))?.map_err(failed)
    }

    async fn remove_leftover(&self, leftover: ProviderResource) -> Result<(), ProviderError> {
        self.inner.remove_leftover(leftover).await
    }
}

impl ProcessHost {
    fn record_database(&self, folder: &Path) -> std::io::Result<()> {
        LocalPaths::record_database(folder, &self.settings.database)
    }

    /// Returns the pattern of files that tasks write on a node, with their folder.
    fn task_output(&self, target: ClusterTarget<'_>, node: &Node) -> Option<(PathBuf, TaskOutput)> {
        let framework = NodeKind::from_profile_type(&target.profile.kind).and_then(NodeKind::framework)?;
        let record = NodeRecord::read(&self.paths.node(target.cluster.id, node.id))?;
        let output = framework.task_output(&node.role, &record.name)?;
        Some((self.output_folder(target.cluster.id, &output), output))
    }

    /// Returns the folder in which the tasks of a cluster write.
    fn output_folder(&self, cluster: ClusterId, output: &TaskOutput) -> PathBuf {
        match output.folder {
            OutputFolder::Cluster => self.paths.preserved(cluster),
            OutputFolder::Sockets => self.paths.short_target(cluster),
        }
    }

    /// Returns the folder of a node. Nodes of a framework are in the folder of their cluster; plain processes have
    /// their own, since they may leave the cluster.
    fn node_folder(&self, target: ClusterTarget<'_>, node: NodeId) -> NodeFolder {
        match NodeKind::from_profile_type(&target.profile.kind) {
            Some(NodeKind::Process) => NodeFolder::new(&self.paths.standalone_node(node), node),
            _ => self.paths.node(target.cluster.id, node),
        }
    }
}

/// Maps a stale generation to the engine's error for an overtaken fence.
fn overtaken(StaleGeneration { given, highest }: StaleGeneration) -> ProviderError {
    ProviderError::overtaken(given, highest)
}

/// Returns the transient error for a file or folder that cannot be used.
fn on_disk(what: &str, error: &dyn std::fmt::Display) -> ProviderError {
    ProviderError::transient("LocalDisk", format!("{what}: {error}"))
}
