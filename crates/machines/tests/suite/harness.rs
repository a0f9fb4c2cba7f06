//! A Kubernetes with Machines, and servers over it.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use muster_core::time::Timestamp;
use muster_machines::decide::registration::WebhookTarget;
use muster_machines::keys;
use muster_machines::run::{LeaseTimes, MachineMetrics, Machines, Settings, WallClock};
use muster_machines::types::{Machine, crds};
use muster_testkit::{OwnKubernetes, eventually};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The namespace of reservations.
pub(crate) const OURS: &str = "imperator-system";

/// The namespace of guests.
pub(crate) const GUESTS: &str = "guests";

struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap())
    }
}

/// A Kubernetes with the custom resources, and a namespace for guests.
pub(crate) struct Site {
    // Ends with this value.
    _kubernetes: OwnKubernetes,
    /// The users' client.
    pub(crate) client: Client,
    /// The servers' client, who are another user.
    server: Client,
}

impl Site {
    /// None if the test is skipped.
    pub(crate) async fn open() -> Option<Self> {
        let kubernetes = muster_testkit::own_kubernetes().await?;
        let client = kubernetes.client();
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        for definition in crds() {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let server = other_user(&kubernetes).await;
        let site = Self { _kubernetes: kubernetes, client, server };
        let labels = json!({keys::NAMESPACE_LABELS[0]: keys::ENABLED});
        site.namespace(GUESTS, &labels).await;
        Some(site)
    }

    pub(crate) async fn namespace(&self, name: &str, labels: &Value) {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    }

    /// A server of this name.
    pub(crate) async fn replica(&self, name: &str) -> Machines {
        self.replica_with(name, |_| {}).await
    }

    /// A server with other settings than usual.
    pub(crate) async fn replica_with(&self, name: &str, change: impl FnOnce(&mut Settings)) -> Machines {
        let (listener, target) = listener();
        ready(self.start(name, listener, target, change).await).await
    }

    /// A server that the API server finds elsewhere than where it listens.
    pub(crate) async fn replica_behind(
        &self,
        name: &str,
        listener: TcpListener,
        target: WebhookTarget,
    ) -> Machines {
        ready(self.start(name, listener, target, |_| {}).await).await
    }

    /// Why a server does not start.
    pub(crate) async fn refused_start(&self) -> String {
        let (listener, target) = listener();
        match self.start("refused", listener, target, |_| {}).await {
            Ok(_) => panic!("it has started"),
            Err(error) => format!("{error:#}"),
        }
    }

    async fn start(
        &self,
        name: &str,
        listener: TcpListener,
        target: WebhookTarget,
        change: impl FnOnce(&mut Settings),
    ) -> anyhow::Result<Machines> {
        let mut settings = Settings::new(OURS.to_owned(), name.to_owned(), target, Arc::new(SystemClock));
        settings.lease = LeaseTimes::within(Duration::from_secs(2));
        change(&mut settings);
        let metrics = MachineMetrics::register(&mut Registry::default());
        Machines::start(self.server.clone(), settings, listener, metrics).await
    }

    pub(crate) async fn create_machine(&self, name: &str, spec: &Value) -> kube::Result<Machine> {
        let machine = json!({
            "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": name, "labels": {keys::MACHINE_GROUP: name}}, "spec": spec,
        });
        let machine: Machine = serde_json::from_value(machine).unwrap();
        Api::all(self.client.clone()).create(&PostParams::default(), &machine).await
    }

    /// A guest of a type.
    pub(crate) async fn guest(&self, name: &str, group: &str, machine_type: &str) -> kube::Result<Pod> {
        let pod = json!({
            "metadata": {"name": name, "labels": {
                keys::MACHINE_GROUP: group, keys::MACHINE_TYPE: machine_type, keys::POD_ROLE: keys::GUEST}},
            "spec": {"containers": [{"name": "main", "image": "example.test/main:1"}]},
        });
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), GUESTS)
    }

    pub(crate) async fn delete_guest(&self, name: &str) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods().delete(name, &now).await.unwrap();
    }

    /// The node of a guest, once it has one.
    pub(crate) async fn placed(&self, guest: &str) -> String {
        eventually(&format!("{guest} has a node"), PATIENCE, async || {
            let pod = self.pods().get(guest).await.unwrap();
            pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).ok_or_else(|| json!(pod))
        })
        .await
    }

    /// Returns once a type is counted so: maximum, reserved, used, waiting.
    pub(crate) async fn counts(&self, machine: &str, machine_type: &str, expected: [i32; 4]) {
        let machines = Api::<Machine>::all(self.client.clone());
        eventually(&format!("{machine_type} is counted {expected:?}"), PATIENCE, async || {
            let status = machines.get(machine).await.unwrap().status.unwrap_or_default();
            let found = status.available_machines.iter().find(|entry| entry.name == machine_type);
            let usage = found.map(|entry| entry.usage).unwrap_or_default();
            let counted = [usage.maximum, usage.reserved, usage.used, usage.waiting];
            if counted == expected { Ok(()) } else { Err(format!("{counted:?} {status:?}")) }
        })
        .await;
    }

    pub(crate) async fn patch_machine(&self, name: &str, patch: Value) -> kube::Result<Machine> {
        let machines = Api::<Machine>::all(self.client.clone());
        machines.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// The scheduling gates of a guest.
    pub(crate) async fn gates(&self, guest: &str) -> Vec<String> {
        let spec = self.pods().get(guest).await.unwrap().spec.unwrap_or_default();
        spec.scheduling_gates.unwrap_or_default().into_iter().map(|gate| gate.name).collect()
    }
}

/// A server that has started, once it answers reviews.
async fn ready(started: anyhow::Result<Machines>) -> Machines {
    let machines = started.unwrap();
    eventually("reviews are answered", PATIENCE, async || machines.readiness()).await;
    machines
}

/// A listener, and its address as the API server calls it.
pub(crate) fn listener() -> (TcpListener, WebhookTarget) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let target = WebhookTarget::Url(format!("https://{}", listener.local_addr().unwrap()));
    (listener, target)
}

/// A client of a user with all rights who is not the admin of the tests.
async fn other_user(kubernetes: &OwnKubernetes) -> Client {
    let (client, name) = (kubernetes.client(), "muster");
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    });
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    Api::all(client).create(&PostParams::default(), &binding).await.unwrap();
    let token = accounts.create_token_request(name, &PostParams::default(), &TokenRequest::default()).await;
    kubernetes.client_with_token(&token.unwrap().status.unwrap().token).await
}

/// The message of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> String {
    match result {
        Err(kube::Error::Api(status)) => status.message.clone(),
        other => panic!("it is not refused: {other:?}"),
    }
}

/// A spec with one type on some nodes.
pub(crate) fn spec(machine_type: &str, nodes: &[&str], available: u32) -> Value {
    let entry = |name: &&str| json!({"name": name, "mode": "ready", "machineType": [{"name": machine_type}]});
    json!({
        "nodePool": nodes.iter().map(entry).collect::<Vec<_>>(),
        "machineTypes": [{"name": machine_type, "spec": {"cpu": "6", "memory": "48Gi"}, "available": available}],
    })
}
