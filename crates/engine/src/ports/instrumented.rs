//! Logs and counts every call to a provider, within the span that names its action.

mod nodes;
mod operator;
mod timer;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::capacity::Capacity;
use muster_core::cluster::Cluster;
use muster_core::ids::{InstanceId, NodeId};
use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_core::profile::{Profile, ProfileType};
use serde_json::{Map, Value};

use self::nodes::InstrumentedNodes;
use self::operator::InstrumentedOperator;
use self::timer::CallTimers;
use crate::metrics::Metrics;
use crate::ports::images::ImageBuilder;
use crate::ports::jobs::JobRunner;
use crate::ports::node_meter::NodeMeter;
use crate::ports::provider::{
    AppProvider, Capabilities, ClusterTarget, ConfigSetProvider, LogLines, LogQuery, NodeProvider, Observed,
    Operation, OperatorProvider, ProcessProvider, Provider, ProviderError, StoredLog, TemplateProvider,
    Unobserved, WorldChange,
};

/// A provider whose calls are logged and counted.
pub(crate) struct InstrumentedProvider {
    provider: Arc<dyn Provider>,
    nodes: Option<Arc<InstrumentedNodes>>,
    operator: Option<Arc<InstrumentedOperator>>,
    timers: CallTimers,
}

impl InstrumentedProvider {
    pub(crate) fn new(provider: Arc<dyn Provider>, metrics: Metrics) -> Self {
        let timers = CallTimers { provider: provider.instance().provider().to_owned(), metrics };
        let nodes = Arc::clone(&provider).node_provider();
        let nodes = nodes.map(|nodes| Arc::new(InstrumentedNodes::new(nodes, timers.clone())));
        let operator = Arc::clone(&provider).operator_provider();
        let operator = operator.map(|operator| Arc::new(InstrumentedOperator::new(operator, timers.clone())));
        Self { provider, nodes, operator, timers }
    }
}

#[async_trait]
impl Provider for InstrumentedProvider {
    fn instance(&self) -> &InstanceId {
        self.provider.instance()
    }

    fn capabilities(&self, kind: &ProfileType, flavor: Option<&str>) -> Option<Capabilities> {
        self.provider.capabilities(kind, flavor)
    }

    fn node_provider(self: Arc<Self>) -> Option<Arc<dyn NodeProvider>> {
        self.nodes.clone().map(|nodes| nodes as Arc<dyn NodeProvider>)
    }

    fn operator_provider(self: Arc<Self>) -> Option<Arc<dyn OperatorProvider>> {
        self.operator.clone().map(|operator| operator as Arc<dyn OperatorProvider>)
    }

    fn template_provider(self: Arc<Self>) -> Option<Arc<dyn TemplateProvider>> {
        Arc::clone(&self.provider).template_provider()
    }

    fn app_provider(self: Arc<Self>) -> Option<Arc<dyn AppProvider>> {
        Arc::clone(&self.provider).app_provider()
    }

    fn process_provider(self: Arc<Self>) -> Option<Arc<dyn ProcessProvider>> {
        Arc::clone(&self.provider).process_provider()
    }

    fn image_builder(self: Arc<Self>) -> Option<Arc<dyn ImageBuilder>> {
        Arc::clone(&self.provider).image_builder()
    }

    fn job_runner(self: Arc<Self>) -> Option<Arc<dyn JobRunner>> {
        Arc::clone(&self.provider).job_runner()
    }

    fn node_meter(self: Arc<Self>) -> Option<Arc<dyn NodeMeter>> {
        Arc::clone(&self.provider).node_meter()
    }

    fn config_set_provider(self: Arc<Self>) -> Option<Arc<dyn ConfigSetProvider>> {
        Arc::clone(&self.provider).config_set_provider()
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        self.provider.check_profile(profile)
    }

    fn readiness(&self) -> Result<(), String> {
        self.provider.readiness()
    }

    fn unobserved(&self) -> Vec<Unobserved> {
        self.provider.unobserved()
    }

    fn orphan_type(&self) -> Option<ProfileType> {
        self.provider.orphan_type()
    }

    fn default_flavor(&self, kind: &ProfileType) -> Option<String> {
        self.provider.default_flavor(kind)
    }

    async fn admit(&self, profile: &Profile, flavor: Option<&str>) -> Result<(), ProviderError> {
        self.provider.admit(profile, flavor).await
    }

    fn check_cluster(&self, cluster: &Cluster) -> Result<(), String> {
        self.provider.check_cluster(cluster)
    }

    async fn admit_cluster(&self, cluster: &Cluster, profile: &Profile) -> Result<(), ProviderError> {
        self.provider.admit_cluster(cluster, profile).await
    }

    async fn admit_update(&self, target: ClusterTarget<'_>, before: &Cluster) -> Result<(), ProviderError> {
        self.provider.admit_update(target, before).await
    }

    fn operations(&self, kind: &ProfileType) -> Vec<Operation> {
        self.provider.operations(kind)
    }

    fn recoveries(&self, kind: &ProfileType) -> &'static [&'static str] {
        self.provider.recoveries(kind)
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let timer = self.timers.begin("observe", target.cluster, nodes.len());
        timer.end(self.provider.observe(target, nodes).await)
    }

    async fn check(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let timer = self.timers.begin("check", target.cluster, nodes.len());
        timer.end(self.provider.check(target, nodes).await)
    }

    async fn details(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
    ) -> Result<Map<String, Value>, ProviderError> {
        let timer = self.timers.begin("details", target.cluster, 1);
        timer.end(self.provider.details(target, node).await)
    }

    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
        query: LogQuery,
    ) -> Result<LogLines, ProviderError> {
        let timer = self.timers.begin("logs", target.cluster, 1);
        timer.end(self.provider.logs(target, node, query).await)
    }

    async fn stored_logs(&self, cluster: &Cluster, query: LogQuery) -> Result<Vec<StoredLog>, ProviderError> {
        let timer = self.timers.begin("stored_logs", cluster, 0);
        timer.end(self.provider.stored_logs(cluster, query).await)
    }

    async fn environment(
        &self,
        target: ClusterTarget<'_>,
    ) -> Result<BTreeMap<String, String>, ProviderError> {
        let timer = self.timers.begin("environment", target.cluster, 0);
        timer.end(self.provider.environment(target).await)
    }

    fn capacity(&self) -> Option<Capacity> {
        self.provider.capacity()
    }

    async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        let timer = self.timers.begin("activity", target.cluster, 0);
        timer.end(self.provider.activity(target).await)
    }

    async fn load(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, u64>, ProviderError> {
        let timer = self.timers.begin("load", target.cluster, nodes.len());
        timer.end(self.provider.load(target, nodes).await)
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        self.provider.changes()
    }
}
