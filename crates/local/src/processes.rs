//! Nodes that are processes of this machine, each under its shim.
//!
//! What a node is, its [`Kind`] knows; what a framework is, `muster-frameworks` knows. Here is only what is the same
//! for all of them: folders, starting, waiting until a node works, looking, letting go.

mod activity;
mod capacity;
mod census;
mod devices;
mod ending;
mod exits;
mod head;
mod kept;
mod kind;
mod launch;
mod logs;
mod look;
mod place;
mod ports;
mod ready;
mod retire;
mod seat;
mod secret;
mod start;
mod stop;
mod turns;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use muster_core::capacity::Capacity;
use muster_core::cluster::Cluster;
use muster_core::ids::{InstanceId, NodeId};
use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_core::profile::{Profile, ProfileType};
use muster_core::recipe::ClusterRecipe;
use muster_engine::ports::images::ImageBuilder;
use muster_engine::ports::provider::{
    Capabilities, ClusterTarget, ConfigSetProvider, FencedCall, INVALID, LogQuery, Membership, NodeProvider,
    NodeResult, Observed, ProcessProvider, Provider, ProviderError, ProviderResource, UpdateOutcome,
    WorldChange,
};
use muster_framework_client::FrameworkClient;
use muster_frameworks::LocalFramework;

use crate::apps::HostProcesses;
use crate::config_sets::ConfigFolder;
use crate::environments::Environments;
use crate::shim::{LogLimits, NodeFolder, Refused, Shims};
use census::Census;
use exits::Exits;
use kind::Kind;
use place::Places;
use ports::Chosen;
use turns::Turns;

/// How local processes are run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where their folders are.
    pub folder: PathBuf,
    /// How much output of a node is kept.
    pub log: LogLimits,
    /// Where logs of clusters that are gone are kept; they go with the cluster if nowhere.
    pub kept_logs: Option<PathBuf>,
    /// How long a node may take until it works.
    pub start_within: Duration,
    /// How many accelerators there are; counted if nothing is said.
    pub gpus: Option<u32>,
    /// Which database has the rows of what runs here.
    pub database: String,
    /// Where configuration sets are.
    pub configs: PathBuf,
}

/// The provider of local processes. Handles are cheap to clone.
#[derive(Clone)]
pub struct Processes {
    inner: Arc<Inner>,
}

struct Inner {
    instance: InstanceId,
    settings: Settings,
    places: Places,
    shims: Shims,
    environments: Environments,
    framework_client: FrameworkClient,
    exits: Exits,
    chosen: Chosen,
    turns: Turns,
    census: Census,
    choosing_devices: parking_lot::Mutex<()>,
}

impl Processes {
    /// The processes of one data folder on one machine.
    pub fn new(instance: InstanceId, settings: Settings, shims: Shims, environments: Environments) -> Self {
        let places = Places::new(settings.folder.clone());
        let framework_client = FrameworkClient::new(HashMap::new());
        let exits = Exits::new(shims.clone());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (chosen, turns, census) = (Chosen::default(), Turns::new(cores), Census::default());
        let inner = Inner {
            instance,
            settings,
            places,
            shims,
            environments,
            framework_client,
            exits,
            chosen,
            turns,
            census,
            choosing_devices: parking_lot::Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Removes logs of clusters that are gone, once they were kept for so long.
    pub async fn purge_logs(&self, keep: Duration) {
        let Some(folder) = self.inner.settings.kept_logs.clone() else { return };
        let purge = move || kept::purge(&folder, keep, std::time::SystemTime::now());
        match tokio::task::spawn_blocking(purge).await {
            Ok(Ok(0)) => {}
            Ok(Ok(count)) => tracing::info!(count, "logs of clusters that are long gone were removed"),
            Ok(Err(error)) => tracing::warn!(%error, "old logs cannot be removed"),
            Err(error) => tracing::warn!(%error, "old logs were not removed"),
        }
    }
}

#[async_trait]
impl Provider for Processes {
    fn instance(&self) -> &InstanceId {
        &self.inner.instance
    }

    fn capabilities(&self, kind: &ProfileType, flavor: Option<&str>) -> Option<Capabilities> {
        if flavor.is_some() {
            return None;
        }
        let kind = Kind::of(kind)?;
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

    fn config_set_provider(self: Arc<Self>) -> Option<Arc<dyn ConfigSetProvider>> {
        Some(Arc::new(ConfigFolder::new(self.inner.settings.configs.clone())))
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        match Kind::of(&profile.kind) {
            Some(kind) => kind.check(profile),
            None => Err(format!("no local process is a {}", profile.kind)),
        }
    }

    async fn admit(&self, profile: &Profile, flavor: Option<&str>) -> Result<(), ProviderError> {
        if let Some(flavor) = flavor {
            let message = format!(
                "flavor '{flavor}' is for Kubernetes, and provider 'local' has no flavors: leave it out, or choose \
                 another provider"
            );
            return Err(ProviderError::permanent(INVALID, message));
        }
        self.inner.has_framework(profile).await
    }

    async fn admit_update(&self, target: ClusterTarget<'_>, before: &Cluster) -> Result<(), ProviderError> {
        self.inner.has_framework_after(target, before).await
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.inner.look(target, nodes)
    }

    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
        LogQuery { tail, follow }: LogQuery,
    ) -> Result<BoxStream<'static, Result<String, ProviderError>>, ProviderError> {
        let failed = |error: std::io::Error| on_disk("the log cannot be read", &error);
        let lines = logs::read(&self.inner.folder(target, node.id), tail, follow);
        Ok(lines.map_err(failed)?.map_err(failed).boxed())
    }

    async fn environment(
        &self,
        target: ClusterTarget<'_>,
    ) -> Result<BTreeMap<String, String>, ProviderError> {
        let Some(framework) = Kind::of(&target.profile.kind).and_then(Kind::framework) else {
            return Ok(BTreeMap::new());
        };
        let head = self.inner.living_head(target.cluster.id);
        let down =
            || ProviderError::permanent("NoHead", "its head does not run: there is nothing to connect to");
        let head = head.ok_or_else(down)?;
        let recipe = ClusterRecipe::of_cluster(target.cluster, target.profile)
            .map_err(|error| ProviderError::permanent("InvalidProfile", error))?;
        let installed = self.inner.installed(framework, &recipe.head()).await?;
        let own = framework.client_environment(&head, &installed.python.to_string_lossy());
        Ok(installed.variables.into_iter().chain(own).collect())
    }

    fn capacity(&self) -> Option<Capacity> {
        Some(capacity::of_machine(self.inner.settings.gpus))
    }

    async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        let said = self.inner.activity(target).await?;
        Ok(self.inner.since_start(target.cluster.id, said))
    }

    async fn load(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, u64>, ProviderError> {
        self.inner.load(target, nodes).await
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        futures::stream::select(self.inner.exits.changes(), Arc::clone(&self.inner).losses()).boxed()
    }
}

#[async_trait]
impl NodeProvider for Processes {
    fn start_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        self.inner.start(call, nodes).boxed()
    }

    fn stop_nodes<'a>(&'a self, call: FencedCall<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        self.inner.stop(call, nodes).boxed()
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
        self.inner.prepare(call).await
    }

    async fn clear_cluster(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.inner.clear(call).await
    }

    async fn list_resources(&self) -> Result<Vec<ProviderResource>, ProviderError> {
        let (places, database) = (self.inner.places.clone(), self.inner.settings.database.clone());
        let listed = tokio::task::spawn_blocking(move || places.resources_of(&database)).await;
        let failed = |error| on_disk("the folders of clusters cannot be listed", &error);
        listed.map_err(|error| failed(std::io::Error::other(error)))?.map_err(failed)
    }

    async fn remove_leftover(&self, leftover: ProviderResource) -> Result<(), ProviderError> {
        self.inner.remove_leftover(leftover).await
    }
}

impl Inner {
    fn note_database(&self, folder: &Path) -> std::io::Result<()> {
        Places::note_database(folder, &self.settings.database)
    }

    /// Where a node's files are. Those of a framework's nodes go with their cluster; others may leave theirs.
    fn folder(&self, target: ClusterTarget<'_>, node: NodeId) -> NodeFolder {
        match Kind::of(&target.profile.kind) {
            Some(Kind::Process) => NodeFolder::new(&self.places.own(node), node),
            _ => self.places.node(target.cluster.id, node),
        }
    }
}

/// A shim has obeyed a request with a higher fence.
fn overtaken(Refused { given, highest }: Refused) -> ProviderError {
    ProviderError::overtaken(given, highest)
}

/// A file or folder could not be used; that may change.
fn on_disk(what: &str, error: &dyn std::fmt::Display) -> ProviderError {
    ProviderError::transient("LocalDisk", format!("{what}: {error}"))
}
