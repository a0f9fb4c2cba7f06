//! The harness of the tests: an engine with a new database, and a namespace of a real Kubernetes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use muster_core::action::{Action, ActionKind, Milestone, OnConflict};
use muster_core::change::{Change, Delete};
use muster_core::cluster::{Cluster, DEFAULT_GROUP, Framework, WorkerGroup};
use muster_core::event::Event;
use muster_core::ids::{ActionId, ClusterId, InstanceId, NodeId, ProfileId};
use muster_core::node::{Node, NodeRole};
use muster_core::principal::Door;
use muster_core::profile::{Profile, ProfileType};
use muster_core::sample;
use muster_core::shape::Shape;
use muster_core::time::TimeSpan;
use muster_engine::policy::Policies;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_engine::ports::provider::Provider;
use muster_engine::ports::webhook::NoWebhooks;
use muster_engine::{Caller, ChangeRequest, Config, Engine, EngineParts, Metrics, Recipe, SubmitError};
use muster_kube::{Kubernetes, KubernetesOptions};
use muster_store::reads::EventQuery;
use muster_testkit::{DatabaseKind, FreshStore, Gate, Namespace, Operator, eventually, read_change};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The limit of every wait: longer than any step takes on a busy machine, so that only a hang reaches it.
pub(crate) const PATIENCE: TimeSpan = TimeSpan::from_secs(120);

pub(crate) struct Harness {
    pub(crate) engine: Engine,
    pub(crate) fresh: FreshStore,
    pub(crate) kubernetes: muster_testkit::Kubernetes,
    pub(crate) namespace: Namespace,
    instance: InstanceId,
}

impl Harness {
    /// A harness with a running operator; none if the test is skipped.
    pub(crate) async fn with(operator: Operator) -> Option<Self> {
        let kubernetes = muster_testkit::kubernetes().await?;
        kubernetes.operator(operator).await?;
        Self::on(kubernetes).await
    }

    /// A harness on this Kubernetes.
    pub(crate) async fn on(kubernetes: muster_testkit::Kubernetes) -> Option<Self> {
        Self::with_addresses(kubernetes, |_| HashMap::new()).await
    }

    /// A harness whose provider resolves host names of its namespace to these addresses.
    pub(crate) async fn with_addresses(
        kubernetes: muster_testkit::Kubernetes,
        names: impl FnOnce(&str) -> HashMap<String, IpAddr>,
    ) -> Option<Self> {
        let own = kubernetes.kubeconfig().to_owned();
        Self::open(kubernetes, &own, names, |own| vec![own.to_owned()]).await
    }

    /// A harness whose requests to the API server all pass a gate.
    pub(crate) async fn through(kubernetes: muster_testkit::Kubernetes, gate: &Gate) -> Option<Self> {
        Self::open(kubernetes, &gate.kubeconfig(), |_| HashMap::new(), |own| vec![own.to_owned()]).await
    }

    /// A harness that serves the namespaces that `served` returns for the namespace of the test.
    pub(crate) async fn serving(
        kubernetes: muster_testkit::Kubernetes,
        served: impl FnOnce(&str) -> Vec<String>,
    ) -> Option<Self> {
        let own = kubernetes.kubeconfig().to_owned();
        Self::open(kubernetes, &own, |_| HashMap::new(), served).await
    }

    async fn open(
        kubernetes: muster_testkit::Kubernetes,
        kubeconfig: &Path,
        names: impl FnOnce(&str) -> HashMap<String, IpAddr>,
        served: impl FnOnce(&str) -> Vec<String>,
    ) -> Option<Self> {
        let fresh = FreshStore::open(DatabaseKind::Sqlite).await?;
        let namespace = kubernetes.namespace().await;
        let options = KubernetesOptions {
            namespaces: served(namespace.name()),
            names: names(namespace.name()),
            ..options(kubeconfig, &fresh).await
        };
        let provider = Kubernetes::connect(options).await.unwrap();
        let instance = provider.instance().clone();
        let parts = EngineParts {
            store: fresh.store.clone(),
            providers: vec![Arc::new(provider)],
            policies: Policies::standard(),
            hooks: Arc::new(NoWebhooks),
            clock: Arc::new(SystemClock),
            config: Config { safety_period: TimeSpan::from_millis(500), ..Config::default() },
            metrics: Metrics::default(),
        };
        let engine = Engine::start(parts).await.unwrap();
        Some(Self { engine, fresh, kubernetes, namespace, instance })
    }

    /// The provider of another replica, with the same database and namespace, and with this kubeconfig.
    pub(crate) async fn replica(&self, kubeconfig: &Path) -> Kubernetes {
        let namespaces = vec![self.namespace.name().to_owned()];
        let options = KubernetesOptions { namespaces, ..options(kubeconfig, &self.fresh).await };
        Kubernetes::connect(options).await.unwrap()
    }

    /// The cluster and profile of a creation; nothing is stored yet.
    pub(crate) fn cluster_request(&self, framework: Framework, workers: u32) -> (Cluster, Profile) {
        let now = SystemClock.now();
        let project = self.namespace.name();
        let profile = Profile {
            id: ProfileId::from_uuid(Uuid::now_v7()),
            kind: ProfileType::new(&format!("{framework}.cluster"), "1.0"),
            project: project.to_owned(),
            ..sample::profile()
        };
        let id = ClusterId::from_uuid(Uuid::now_v7());
        let cluster = Cluster {
            framework: Some(framework),
            owner: sample::principal().as_owner(),
            user: "ann".to_owned(),
            groups: vec![group(DEFAULT_GROUP, workers)],
            ..Cluster::new(id, "fred", project, self.instance.clone(), &profile, now)
        };
        (cluster, profile)
    }

    pub(crate) async fn try_create(&self, new: &(Cluster, Profile)) -> Result<ActionId, SubmitError> {
        let (cluster, profile) = new.clone();
        let accepted = self.engine.create_cluster(cluster, Recipe::New(profile), true, caller()).await?;
        Ok(accepted.action.id)
    }

    /// Creates a cluster and waits until it is active.
    pub(crate) async fn created(&self, framework: Framework, workers: u32) -> Cluster {
        let new = self.cluster_request(framework, workers);
        let action = self.try_create(&new).await.unwrap();
        let action = self.ended(action).await;
        assert_eq!(action.status_reason, "Cluster creation succeeded.");
        self.cluster(new.0.id).await
    }

    pub(crate) async fn submit(
        &self,
        kind: ActionKind,
        cluster: &Cluster,
        node: Option<NodeId>,
        inputs: Value,
    ) -> ActionId {
        let (cluster, on_conflict) = (self.cluster(cluster.id).await, OnConflict::Queue);
        let change =
            ChangeRequest { change: read_change(kind, &inputs), cluster, node, on_conflict, timeout: None };
        Box::pin(self.engine.submit(change, caller())).await.unwrap().action.id
    }

    /// Submits a deletion that cancels the action that holds the cluster.
    pub(crate) async fn submit_preempting_delete(&self, id: ClusterId) -> ActionId {
        let change = ChangeRequest {
            change: Change::DeleteCluster(Delete::default()),
            cluster: self.cluster(id).await,
            node: None,
            on_conflict: OnConflict::Preempt,
            timeout: None,
        };
        Box::pin(self.engine.submit(change, caller())).await.expect("the deletion is accepted").action.id
    }

    pub(crate) async fn try_submit(
        &self,
        kind: ActionKind,
        cluster: &Cluster,
        inputs: Value,
    ) -> Result<ActionId, SubmitError> {
        let (cluster, on_conflict) = (self.cluster(cluster.id).await, OnConflict::Queue);
        let change = ChangeRequest {
            change: read_change(kind, &inputs),
            cluster,
            node: None,
            on_conflict,
            timeout: None,
        };
        Ok(Box::pin(self.engine.submit(change, caller())).await?.action.id)
    }

    pub(crate) async fn done(&self, kind: ActionKind, cluster: &Cluster, inputs: Value) -> Action {
        let action = self.submit(kind, cluster, None, inputs).await;
        self.ended(action).await
    }

    pub(crate) async fn resized(&self, cluster: &Cluster, workers: u32) -> Action {
        self.done(ActionKind::ClusterResize, cluster, exactly(workers)).await
    }

    pub(crate) async fn ended(&self, id: ActionId) -> Action {
        let action = self.engine.wait(id, Milestone::Reached, PATIENCE).await.unwrap();
        if !action.status.is_final() {
            let row = self.cluster(action.cluster_id.expect("an action of a cluster")).await;
            panic!("{} did not end: {}, {}: {:?}", action.kind, row.status, row.status_reason, row.observed);
        }
        action
    }

    pub(crate) async fn cluster(&self, id: ClusterId) -> Cluster {
        self.fresh.store.cluster(id).await.unwrap().expect("the cluster has a row")
    }

    /// The stored object of a cluster, as APIs show it.
    pub(crate) async fn shown(&self, id: ClusterId) -> Value {
        let json = self.fresh.store.cluster_objects(&[id]).await.unwrap().remove(&id).expect("an object");
        serde_json::from_str(&json).expect("JSON")
    }

    pub(crate) async fn nodes(&self, id: ClusterId) -> Vec<Node> {
        self.fresh.store.members(id).await.unwrap()
    }

    pub(crate) async fn workers(&self, id: ClusterId) -> Vec<Node> {
        self.nodes(id).await.into_iter().filter(|node| node.role == NodeRole::Worker).collect()
    }

    pub(crate) async fn head(&self, id: ClusterId) -> Node {
        let head = self.nodes(id).await.into_iter().find(|node| node.role == NodeRole::Head);
        head.expect("there is a head")
    }

    /// The events of a cluster with this reason.
    pub(crate) async fn events(&self, id: ClusterId, reason: &str) -> Vec<Event> {
        let query = EventQuery { cluster: Some(id), ..EventQuery::default() };
        let events = self.fresh.store.events(&query).await.unwrap().items;
        events.into_iter().filter(|event| event.reason == reason).collect()
    }

    /// Waits until `find` finds something, and shows all clusters if it does not.
    pub(crate) async fn until<T>(&self, what: &str, find: impl AsyncFn() -> Option<T>) -> T {
        eventually(what, PATIENCE, async || match find().await {
            Some(found) => Ok(found),
            None => Err(self.rows().await),
        })
        .await
    }

    /// The states and reasons of all clusters, for a failure.
    async fn rows(&self) -> String {
        let all = self.fresh.store.clusters(&muster_store::reads::ClusterQuery::default()).await.unwrap();
        let row = |row: Cluster| format!("\n  {}: {}, {}", row.name, row.status, row.status_reason);
        all.items.into_iter().map(row).collect()
    }

    /// Waits for the row of an external cluster with this name.
    pub(crate) async fn discovered(&self, name: &str) -> Cluster {
        let named = async || {
            let all = self.fresh.store.clusters(&muster_store::reads::ClusterQuery::default()).await.unwrap();
            all.items.into_iter().find(|cluster| cluster.name == name && cluster.observed.object.is_some())
        };
        self.until(&format!("a row for {name}"), named).await
    }

    /// The API of a kind in the namespace.
    pub(crate) fn objects(&self, kind: [&str; 3]) -> Api<DynamicObject> {
        Api::namespaced_with(self.kubernetes.client(), self.namespace.name(), &resource(kind))
    }
}

async fn options(kubeconfig: &Path, fresh: &FreshStore) -> KubernetesOptions {
    let database = fresh.store.database_id().await.unwrap();
    KubernetesOptions { kubeconfig: Some(kubeconfig.to_owned()), database, ..KubernetesOptions::default() }
}

fn resource([group, version, kind]: [&str; 3]) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The body of an object with this specification.
pub(crate) fn object(kind: [&str; 3], name: &str, spec: &Value) -> DynamicObject {
    DynamicObject::new(name, &resource(kind)).data(json!({"spec": spec}))
}

pub(crate) fn group(name: &str, workers: u32) -> WorkerGroup {
    WorkerGroup {
        name: name.to_owned(),
        desired: workers,
        min: 0,
        max: None,
        shape: Shape { cpu: "1".parse().ok(), memory: "1Gi".parse().ok(), ..Shape::default() },
        spec: Map::new(),
    }
}

pub(crate) fn exactly(workers: u32) -> Value {
    json!({"adjustment_type": "EXACT_CAPACITY", "number": workers})
}

pub(crate) fn caller() -> Caller {
    Caller { principal: sample::principal(), door: Door::Core, request: None, reason: String::new() }
}
