//! Every call to a provider leaves a word in the log, beside the action that the span around it names.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use async_trait::async_trait;
use futures::Stream;
use futures::stream::BoxStream;
use muster_core::capacity::Capacity;
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, InstanceId, NodeId};
use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_core::profile::{Profile, ProfileType};
use serde_json::{Map, Value};

use crate::metrics::Metrics;
use crate::ports::provider::{
    Call, Capabilities, Change, Found, LogQuery, MemberId, NodeResult, Observed, Operation, Provider,
    ProviderError, Updated,
};

/// A provider whose calls are told and counted.
pub(crate) struct InstrumentedProvider {
    provider: Arc<dyn Provider>,
    metrics: Metrics,
}

impl InstrumentedProvider {
    pub(crate) fn new(provider: Arc<dyn Provider>, metrics: Metrics) -> Self {
        Self { provider, metrics }
    }

    fn begin(&self, verb: &'static str, call: Call<'_>, nodes: usize) -> CallTimer {
        let (cluster, metrics) = (call.cluster.id, self.metrics.clone());
        let provider = self.provider.instance().provider().to_owned();
        let begun = Instant::now();
        CallTimer {
            metrics,
            provider,
            verb,
            cluster,
            nodes,
            begun,
            answered: 0,
            failed: 0,
            first: None,
            ended: false,
        }
    }
}

/// One call, from its begin to its last result; told when it ends or is left.
struct CallTimer {
    metrics: Metrics,
    provider: String,
    verb: &'static str,
    cluster: ClusterId,
    nodes: usize,
    begun: Instant,
    answered: usize,
    failed: usize,
    first: Option<ProviderError>,
    /// Nothing more comes; otherwise whoever asked has left.
    ended: bool,
}

impl CallTimer {
    fn result<T>(&mut self, result: &Result<T, ProviderError>) {
        self.answered += 1;
        if let Err(error) = result {
            self.failed += 1;
            self.first.get_or_insert_with(|| error.clone());
        }
    }

    fn end<T>(mut self, result: Result<T, ProviderError>) -> Result<T, ProviderError> {
        self.result(&result);
        self.ended = true;
        result
    }
}

impl Drop for CallTimer {
    fn drop(&mut self) {
        let Self { verb, cluster, nodes, answered, failed, ended, .. } = self;
        let took = self.begun.elapsed();
        let ms = took.as_millis();
        let outcome = match (*failed > 0, *ended) {
            (true, _) => "failed",
            (false, true) => "done",
            (false, false) => "left",
        };
        self.metrics.called(&self.provider, verb, outcome, took);
        match &self.first {
            Some(ProviderError { transient, reason, message }) => {
                tracing::warn!(verb, %cluster, nodes, answered, failed, ms, transient, reason, %message, "provider call failed");
            }
            None => tracing::debug!(verb, %cluster, nodes, answered, ms, outcome, "provider call"),
        }
    }
}

/// Results of a batch, counted as they pass.
struct Results<'a> {
    results: BoxStream<'a, NodeResult>,
    timer: Option<CallTimer>,
}

impl Stream for Results<'_> {
    type Item = NodeResult;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<NodeResult>> {
        let next = self.results.as_mut().poll_next(context);
        match (&next, &mut self.timer) {
            (Poll::Ready(Some(result)), Some(timer)) => timer.result(&result.result),
            (Poll::Ready(None), timer) => {
                if let Some(mut timer) = timer.take() {
                    timer.ended = true;
                }
            }
            (Poll::Pending, _) | (Poll::Ready(Some(_)), None) => {}
        }
        next
    }
}

impl InstrumentedProvider {
    fn batch<'a>(
        &self,
        verb: &'static str,
        call: Call<'_>,
        nodes: usize,
        results: BoxStream<'a, NodeResult>,
    ) -> BoxStream<'a, NodeResult> {
        // A batch of nobody is no call.
        let timer = (nodes > 0).then(|| self.begin(verb, call, nodes));
        Box::pin(Results { results, timer })
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

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        self.provider.check_profile(profile)
    }

    fn readiness(&self) -> Result<(), String> {
        self.provider.readiness()
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

    async fn create(&self, call: Call<'_>) -> Result<(), ProviderError> {
        let timer = self.begin("create", call, 0);
        timer.end(self.provider.create(call).await)
    }

    async fn delete(&self, call: Call<'_>) -> Result<(), ProviderError> {
        let timer = self.begin("delete", call, 0);
        timer.end(self.provider.delete(call).await)
    }

    fn start_nodes<'a>(&'a self, call: Call<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let count = nodes.len();
        self.batch("start_nodes", call, count, self.provider.start_nodes(call, nodes))
    }

    fn obstacles(&self, kind: &ProfileType, starting: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        self.provider.obstacles(kind, starting)
    }

    fn stop_nodes<'a>(&'a self, call: Call<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        let count = nodes.len();
        self.batch("stop_nodes", call, count, self.provider.stop_nodes(call, nodes))
    }

    async fn update(&self, call: Call<'_>, before: &Cluster, victims: &[Node]) -> Result<(), ProviderError> {
        let timer = self.begin("update", call, victims.len());
        timer.end(self.provider.update(call, before, victims).await)
    }

    async fn settle(&self, call: Call<'_>) -> Result<(), ProviderError> {
        let timer = self.begin("settle", call, 0);
        timer.end(self.provider.settle(call).await)
    }

    async fn restart_head(&self, call: Call<'_>, old: &[MemberId]) -> Result<(), ProviderError> {
        let timer = self.begin("restart_head", call, old.len());
        timer.end(self.provider.restart_head(call, old).await)
    }

    async fn update_node(
        &self,
        call: Call<'_>,
        node: &Node,
        before: &Profile,
    ) -> Result<Updated, ProviderError> {
        let timer = self.begin("update_node", call, 1);
        timer.end(self.provider.update_node(call, node, before).await)
    }

    async fn take_in(&self, kind: &ProfileType, identity: &str) -> Result<(), ProviderError> {
        self.provider.take_in(kind, identity).await
    }

    async fn adopt(&self, kind: &ProfileType, identity: &str) -> Result<Map<String, Value>, ProviderError> {
        self.provider.adopt(kind, identity).await
    }

    fn operations(&self, kind: &ProfileType) -> Vec<Operation> {
        self.provider.operations(kind)
    }

    fn recoveries(&self, kind: &ProfileType) -> &'static [&'static str] {
        self.provider.recoveries(kind)
    }

    async fn operate(
        &self,
        call: Call<'_>,
        node: &Node,
        operation: &str,
        parameters: &Map<String, Value>,
    ) -> Result<(), ProviderError> {
        let timer = self.begin("operate", call, 1);
        timer.end(self.provider.operate(call, node, operation, parameters).await)
    }

    async fn details(&self, call: Call<'_>, node: &Node) -> Result<Map<String, Value>, ProviderError> {
        let timer = self.begin("details", call, 1);
        timer.end(self.provider.details(call, node).await)
    }

    async fn check(&self, call: Call<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let timer = self.begin("check", call, nodes.len());
        timer.end(self.provider.check(call, nodes).await)
    }

    async fn observe(&self, call: Call<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let timer = self.begin("observe", call, nodes.len());
        timer.end(self.provider.observe(call, nodes).await)
    }

    async fn logs(
        &self,
        call: Call<'_>,
        node: &Node,
        query: LogQuery,
    ) -> Result<BoxStream<'static, Result<String, ProviderError>>, ProviderError> {
        let timer = self.begin("logs", call, 1);
        timer.end(self.provider.logs(call, node, query).await)
    }

    async fn environment(&self, call: Call<'_>) -> Result<BTreeMap<String, String>, ProviderError> {
        let timer = self.begin("environment", call, 0);
        timer.end(self.provider.environment(call).await)
    }

    fn capacity(&self) -> Option<Capacity> {
        self.provider.capacity()
    }

    async fn activity(&self, call: Call<'_>) -> Result<Activity, ProviderError> {
        let timer = self.begin("activity", call, 0);
        timer.end(self.provider.activity(call).await)
    }

    fn found(&self) -> Vec<ClusterId> {
        self.provider.found()
    }

    fn disown(&self, id: ClusterId) {
        self.provider.disown(id);
    }

    async fn describe(&self, id: ClusterId) -> Result<Option<Found>, ProviderError> {
        self.provider.describe(id).await
    }

    fn changes(&self) -> BoxStream<'static, Change> {
        self.provider.changes()
    }
}
