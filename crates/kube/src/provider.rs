//! The port of the engine, on Kubernetes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, InstanceId, NodeId};
use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_core::profile::{Profile, ProfileType};
use muster_engine::ports::provider::{
    Call, Capabilities, Change, Found, LogQuery, MemberId, NodeResult, Observed, Provider, ProviderError,
};
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connect::{self, CannotConnect, Connection, Options};
use crate::logs::Lines;
use crate::namespaces::Namespaces;
use crate::operated::Operated;
use crate::pods::{Pods, is_pod};
use crate::which::Remembered;

/// Changes that may wait for whoever listens; who falls behind looks at everything.
const CHANGES: usize = 4096;

/// A Kubernetes: clusters that operators drive, and nodes that are pods.
pub struct Kubernetes {
    instance: InstanceId,
    remembered: Option<Remembered>,
    operated: Operated,
    pods: Pods,
    changes: broadcast::Sender<Change>,
    _stop: DropGuard,
}

impl Kubernetes {
    /// Connects, and begins to follow what is there.
    pub async fn connect(options: Options) -> Result<Self, CannotConnect> {
        let (changes, stop) = (broadcast::channel(CHANGES).0, CancellationToken::new());
        let stops = stop.clone().drop_guard();
        let connection = connect::connect(&options, &stop).await?;
        let namespaces = Arc::new(Namespaces::new(connection.client.clone(), options.namespaces.clone()));
        let own = Arc::clone(&namespaces);
        let pods = Pods::follow(&connection, &options.namespaces, own, changes.clone(), &stop);
        let operated = Operated::follow(&connection, options, namespaces, changes.clone(), &stop);
        let Connection { instance, remembered, .. } = connection;
        Ok(Self { instance, remembered, operated, pods, changes, _stop: stops })
    }

    /// What to remember for the next start, at which it may be away.
    pub fn remembered(&self) -> Option<&Remembered> {
        self.remembered.as_ref()
    }

    /// Who does it for nodes of a type.
    fn of(&self, kind: &ProfileType) -> &dyn Provider {
        if is_pod(kind) { &self.pods } else { &self.operated }
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

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        self.of(&profile.kind).check_profile(profile)
    }

    fn readiness(&self) -> Result<(), String> {
        self.operated.readiness()
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

    async fn create(&self, call: Call<'_>) -> Result<(), ProviderError> {
        self.of(&call.profile.kind).create(call).await
    }

    async fn delete(&self, call: Call<'_>) -> Result<(), ProviderError> {
        self.of(&call.profile.kind).delete(call).await
    }

    fn start_nodes<'a>(&'a self, call: Call<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        self.of(&call.profile.kind).start_nodes(call, nodes)
    }

    fn obstacles(&self, kind: &ProfileType, starting: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        self.of(kind).obstacles(kind, starting)
    }

    fn stop_nodes<'a>(&'a self, call: Call<'a>, nodes: Vec<Node>) -> BoxStream<'a, NodeResult> {
        self.of(&call.profile.kind).stop_nodes(call, nodes)
    }

    async fn update(&self, call: Call<'_>, before: &Cluster, victims: &[Node]) -> Result<(), ProviderError> {
        self.of(&call.profile.kind).update(call, before, victims).await
    }

    async fn settle(&self, call: Call<'_>) -> Result<(), ProviderError> {
        self.of(&call.profile.kind).settle(call).await
    }

    async fn restart_head(&self, call: Call<'_>, old: &[MemberId]) -> Result<(), ProviderError> {
        self.of(&call.profile.kind).restart_head(call, old).await
    }

    async fn adopt(&self, kind: &ProfileType, identity: &str) -> Result<Map<String, Value>, ProviderError> {
        self.of(kind).adopt(kind, identity).await
    }

    async fn take_in(&self, kind: &ProfileType, identity: &str) -> Result<(), ProviderError> {
        self.of(kind).take_in(kind, identity).await
    }

    async fn details(&self, call: Call<'_>, node: &Node) -> Result<Map<String, Value>, ProviderError> {
        self.of(&call.profile.kind).details(call, node).await
    }

    async fn observe(&self, call: Call<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.of(&call.profile.kind).observe(call, nodes).await
    }

    async fn check(&self, call: Call<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.of(&call.profile.kind).check(call, nodes).await
    }

    async fn logs(&self, call: Call<'_>, node: &Node, query: LogQuery) -> Result<Lines, ProviderError> {
        self.of(&call.profile.kind).logs(call, node, query).await
    }

    async fn activity(&self, call: Call<'_>) -> Result<Activity, ProviderError> {
        self.of(&call.profile.kind).activity(call).await
    }

    async fn environment(&self, call: Call<'_>) -> Result<BTreeMap<String, String>, ProviderError> {
        self.of(&call.profile.kind).environment(call).await
    }

    fn found(&self) -> Vec<ClusterId> {
        self.operated.found()
    }

    fn disown(&self, id: ClusterId) {
        self.operated.disown(id);
    }

    async fn describe(&self, id: ClusterId) -> Result<Option<Found>, ProviderError> {
        self.operated.describe(id).await
    }

    fn changes(&self) -> BoxStream<'static, Change> {
        Change::told(self.changes.subscribe())
    }
}
