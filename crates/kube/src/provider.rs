//! The port of the engine, on Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::cluster::Cluster;
use muster_core::ids::InstanceId;
use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_core::profile::{Profile, ProfileType};
use muster_engine::ports::images::ImageBuilder;
use muster_engine::ports::provider::{
    AppProvider, Capabilities, ClusterTarget, ConfigSetProvider, LogQuery, NodeProvider, Observed,
    OperatorProvider, Provider, ProviderError, TemplateProvider, Unobserved, WorldChange,
};
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::apps::Apps;
use crate::connect::{self, CannotConnect, Connection, Options};
use crate::images::Images;
use crate::logs::Lines;
use crate::namespaces::Namespaces;
use crate::operated::Operated;
use crate::pods::{Pods, is_pod};
use crate::stored_configs::ConfigSets;
use crate::templates::Templates;
use crate::which::Remembered;

/// Changes that may wait for whoever listens; who falls behind looks at everything.
const CHANGES: usize = 4096;

/// A Kubernetes: clusters that operators drive, and nodes that are pods.
pub struct Kubernetes {
    instance: InstanceId,
    api_server: String,
    remembered: Option<Remembered>,
    operated: Arc<Operated>,
    config_sets: Arc<ConfigSets>,
    pods: Arc<Pods>,
    templates: Arc<Templates>,
    images: Arc<Images>,
    apps: Arc<Apps>,
    changes: broadcast::Sender<WorldChange>,
    _stop: DropGuard,
}

impl Kubernetes {
    /// Connects, and begins to follow what is there.
    pub async fn connect(options: Options) -> Result<Self, CannotConnect> {
        let (changes, stop) = (broadcast::channel(CHANGES).0, CancellationToken::new());
        let stops = stop.clone().drop_guard();
        let connection = connect::connect(&options, &stop).await?;
        let namespaces = Arc::new(Namespaces::new(connection.client.clone(), options.namespaces.clone()));
        let (client, certain) = (connection.client.clone(), connection.certain.clone());
        let config_sets = Arc::new(ConfigSets::new(client, certain, Arc::clone(&namespaces)));
        let own = Arc::clone(&namespaces);
        let pods = Pods::follow(&connection, &options.namespaces, own, changes.clone(), &stop);
        let own = Arc::clone(&namespaces);
        let templates = Arc::new(Templates::follow(&connection, &options.namespaces, own, &stop));
        let own = Arc::clone(&namespaces);
        let apps = Arc::new(Apps::follow(&connection, &options.namespaces, own, &stop));
        let images = Arc::new(Images::new(connection.client.clone(), options.images.clone()));
        let operated = Operated::follow(&connection, options, namespaces, changes.clone(), &stop);
        let (pods, operated) = (Arc::new(pods), Arc::new(operated));
        let Connection { instance, api_server, remembered, .. } = connection;
        Ok(Self {
            instance,
            api_server,
            remembered,
            operated,
            config_sets,
            pods,
            templates,
            images,
            apps,
            changes,
            _stop: stops,
        })
    }

    /// What to remember for the next start, at which it may be away.
    pub fn remembered(&self) -> Option<&Remembered> {
        self.remembered.as_ref()
    }

    /// The host name or address of the API server.
    pub fn api_server(&self) -> &str {
        &self.api_server
    }

    /// Who does it for nodes of a type.
    fn of(&self, kind: &ProfileType) -> &dyn Provider {
        if is_pod(kind) { self.pods.as_ref() } else { self.operated.as_ref() }
    }
}

#[async_trait]
impl Provider for Kubernetes {
    fn instance(&self) -> &InstanceId {
        &self.instance
    }

    fn capabilities(&self, kind: &ProfileType, flavor: Option<&str>) -> Option<Capabilities> {
        self.of(kind).capabilities(kind, flavor)
    }

    fn node_provider(self: Arc<Self>) -> Option<Arc<dyn NodeProvider>> {
        Some(Arc::clone(&self.pods) as Arc<dyn NodeProvider>)
    }

    fn operator_provider(self: Arc<Self>) -> Option<Arc<dyn OperatorProvider>> {
        Some(Arc::clone(&self.operated) as Arc<dyn OperatorProvider>)
    }

    fn template_provider(self: Arc<Self>) -> Option<Arc<dyn TemplateProvider>> {
        Some(Arc::clone(&self.templates) as Arc<dyn TemplateProvider>)
    }

    fn app_provider(self: Arc<Self>) -> Option<Arc<dyn AppProvider>> {
        Some(Arc::clone(&self.apps) as Arc<dyn AppProvider>)
    }

    fn image_builder(self: Arc<Self>) -> Option<Arc<dyn ImageBuilder>> {
        Some(Arc::clone(&self.images) as Arc<dyn ImageBuilder>)
    }

    fn config_set_provider(self: Arc<Self>) -> Option<Arc<dyn ConfigSetProvider>> {
        Some(Arc::clone(&self.config_sets) as Arc<dyn ConfigSetProvider>)
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        self.of(&profile.kind).check_profile(profile)
    }

    fn readiness(&self) -> Result<(), String> {
        self.operated.readiness()
    }

    fn unobserved(&self) -> Vec<Unobserved> {
        self.operated.unobserved()
    }

    fn orphan_type(&self) -> Option<ProfileType> {
        self.pods.orphan_type()
    }

    fn default_flavor(&self, kind: &ProfileType) -> Option<String> {
        self.of(kind).default_flavor(kind)
    }

    async fn admit(&self, profile: &Profile, flavor: Option<&str>) -> Result<(), ProviderError> {
        self.of(&profile.kind).admit(profile, flavor).await
    }

    fn check_cluster(&self, cluster: &Cluster) -> Result<(), String> {
        self.of(&cluster.profile_type).check_cluster(cluster)
    }

    async fn admit_cluster(&self, cluster: &Cluster, profile: &Profile) -> Result<(), ProviderError> {
        self.of(&profile.kind).admit_cluster(cluster, profile).await
    }

    async fn admit_update(&self, target: ClusterTarget<'_>, before: &Cluster) -> Result<(), ProviderError> {
        self.of(&target.profile.kind).admit_update(target, before).await
    }

    async fn details(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
    ) -> Result<Map<String, Value>, ProviderError> {
        self.of(&target.profile.kind).details(target, node).await
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.of(&target.profile.kind).observe(target, nodes).await
    }

    async fn check(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.of(&target.profile.kind).check(target, nodes).await
    }

    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
        query: LogQuery,
    ) -> Result<Lines, ProviderError> {
        self.of(&target.profile.kind).logs(target, node, query).await
    }

    async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        self.of(&target.profile.kind).activity(target).await
    }

    async fn environment(
        &self,
        target: ClusterTarget<'_>,
    ) -> Result<BTreeMap<String, String>, ProviderError> {
        self.of(&target.profile.kind).environment(target).await
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        WorldChange::stream(self.changes.subscribe())
    }
}
