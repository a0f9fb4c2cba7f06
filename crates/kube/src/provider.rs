//! The provider of a Kubernetes: it starts all parts, and forwards each call to clusters of operators or to single
//! pods.

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
use muster_engine::ports::jobs::JobRunner;
use muster_engine::ports::node_meter::NodeMeter;
use muster_engine::ports::provider::{
    AppProvider, Capabilities, ClusterTarget, ConfigSetProvider, LogLines, LogQuery, NodeProvider, Observed,
    OperatorProvider, Provider, ProviderError, TemplateProvider, Unobserved, WorldChange,
};
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::apps::Apps;
use crate::cluster_identity::RememberedIdentity;
use crate::connect::{self, CannotConnect, KubernetesConnection, KubernetesOptions};
use crate::images::Images;
use crate::jobs::KubernetesJobs;
use crate::namespaces::Namespaces;
use crate::operator_clusters::OperatorClusters;
use crate::pod_metrics::PodMetrics;
use crate::pods::{PodProvider, is_pod};
use crate::stored_configs::ConfigSets;
use crate::templates::Templates;

/// The number of changes that may wait for a subscriber. A subscriber that lags further observes everything.
const CHANGES: usize = 4096;

/// The provider of a Kubernetes, for clusters of operators and for nodes that are pods.
pub struct Kubernetes {
    instance: InstanceId,
    api_server: String,
    remembered: Option<RememberedIdentity>,
    operator_clusters: Arc<OperatorClusters>,
    config_sets: Arc<ConfigSets>,
    pods: Arc<PodProvider>,
    templates: Arc<Templates>,
    images: Arc<Images>,
    jobs: Arc<KubernetesJobs>,
    metrics: Arc<PodMetrics>,
    apps: Arc<Apps>,
    changes: broadcast::Sender<WorldChange>,
    _stop: DropGuard,
}

impl Kubernetes {
    /// Connects and starts the watches, which end when the provider is dropped.
    pub async fn connect(options: KubernetesOptions) -> Result<Self, CannotConnect> {
        let (changes, stop) = (broadcast::channel(CHANGES).0, CancellationToken::new());
        let stops = stop.clone().drop_guard();
        let connection = connect::connect(&options, &stop).await?;
        let namespaces = Arc::new(Namespaces::new(connection.client.clone(), options.namespaces.clone()));
        let (client, identity_gate) = (connection.client.clone(), connection.identity_gate.clone());
        let config_sets = Arc::new(ConfigSets::new(client, identity_gate, Arc::clone(&namespaces)));
        let own = Arc::clone(&namespaces);
        let pods = PodProvider::start(&connection, &options.namespaces, own, changes.clone(), &stop);
        let own = Arc::clone(&namespaces);
        let templates = Arc::new(Templates::start(&connection, &options.namespaces, own, &stop));
        let own = Arc::clone(&namespaces);
        let apps = Arc::new(Apps::start(&connection, &options.namespaces, own, &stop));
        let images = Arc::new(Images::new(connection.client.clone(), options.images.clone()));
        let metrics = Arc::new(PodMetrics::new(connection.client.clone(), connection.identity_gate.clone()));
        let served = options.namespaces.clone();
        let operator_clusters =
            OperatorClusters::start(&connection, options, namespaces, changes.clone(), &stop);
        let (pods, operator_clusters) = (Arc::new(pods), Arc::new(operator_clusters));
        let jobs = KubernetesJobs::start(&connection, &served, Arc::clone(&operator_clusters), &stop);
        let jobs = Arc::new(jobs);
        let KubernetesConnection { instance, api_server, remembered, .. } = connection;
        Ok(Self {
            instance,
            api_server,
            remembered,
            operator_clusters,
            config_sets,
            pods,
            templates,
            images,
            jobs,
            metrics,
            apps,
            changes,
            _stop: stops,
        })
    }

    /// Returns the identity to store for the next start, at which the API server may be unreachable.
    pub fn remembered_identity(&self) -> Option<&RememberedIdentity> {
        self.remembered.as_ref()
    }

    /// Returns the host name or address of the API server.
    pub fn api_server(&self) -> &str {
        &self.api_server
    }

    /// Returns the provider of a profile type.
    fn provider_for(&self, kind: &ProfileType) -> &dyn Provider {
        if is_pod(kind) { self.pods.as_ref() } else { self.operator_clusters.as_ref() }
    }
}

#[async_trait]
impl Provider for Kubernetes {
    fn instance(&self) -> &InstanceId {
        &self.instance
    }

    fn capabilities(&self, kind: &ProfileType, flavor: Option<&str>) -> Option<Capabilities> {
        self.provider_for(kind).capabilities(kind, flavor)
    }

    fn node_provider(self: Arc<Self>) -> Option<Arc<dyn NodeProvider>> {
        Some(Arc::clone(&self.pods) as Arc<dyn NodeProvider>)
    }

    fn operator_provider(self: Arc<Self>) -> Option<Arc<dyn OperatorProvider>> {
        Some(Arc::clone(&self.operator_clusters) as Arc<dyn OperatorProvider>)
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

    fn job_runner(self: Arc<Self>) -> Option<Arc<dyn JobRunner>> {
        Some(Arc::clone(&self.jobs) as Arc<dyn JobRunner>)
    }

    fn node_meter(self: Arc<Self>) -> Option<Arc<dyn NodeMeter>> {
        Some(Arc::clone(&self.metrics) as Arc<dyn NodeMeter>)
    }

    fn config_set_provider(self: Arc<Self>) -> Option<Arc<dyn ConfigSetProvider>> {
        Some(Arc::clone(&self.config_sets) as Arc<dyn ConfigSetProvider>)
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        self.provider_for(&profile.kind).check_profile(profile)
    }

    fn readiness(&self) -> Result<(), String> {
        self.operator_clusters.readiness()
    }

    fn unobserved(&self) -> Vec<Unobserved> {
        self.operator_clusters.unobserved()
    }

    fn orphan_type(&self) -> Option<ProfileType> {
        self.pods.orphan_type()
    }

    fn default_flavor(&self, kind: &ProfileType) -> Option<String> {
        self.provider_for(kind).default_flavor(kind)
    }

    async fn admit(&self, profile: &Profile, flavor: Option<&str>) -> Result<(), ProviderError> {
        self.provider_for(&profile.kind).admit(profile, flavor).await
    }

    fn check_cluster(&self, cluster: &Cluster) -> Result<(), String> {
        self.provider_for(&cluster.profile_type).check_cluster(cluster)
    }

    async fn admit_cluster(&self, cluster: &Cluster, profile: &Profile) -> Result<(), ProviderError> {
        self.provider_for(&profile.kind).admit_cluster(cluster, profile).await
    }

    async fn admit_update(&self, target: ClusterTarget<'_>, before: &Cluster) -> Result<(), ProviderError> {
        self.provider_for(&target.profile.kind).admit_update(target, before).await
    }

    async fn details(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
    ) -> Result<Map<String, Value>, ProviderError> {
        self.provider_for(&target.profile.kind).details(target, node).await
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.provider_for(&target.profile.kind).observe(target, nodes).await
    }

    async fn check(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.provider_for(&target.profile.kind).check(target, nodes).await
    }

    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
        query: LogQuery,
    ) -> Result<LogLines, ProviderError> {
        self.provider_for(&target.profile.kind).logs(target, node, query).await
    }

    async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        self.provider_for(&target.profile.kind).activity(target).await
    }

    async fn environment(
        &self,
        target: ClusterTarget<'_>,
    ) -> Result<BTreeMap<String, String>, ProviderError> {
        self.provider_for(&target.profile.kind).environment(target).await
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        WorldChange::stream(self.changes.subscribe())
    }
}
