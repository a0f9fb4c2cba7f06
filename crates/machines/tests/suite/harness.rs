//! A Kubernetes with Machines, and servers over it.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use muster_core::time::Timestamp;
use muster_machines::decide::registration::WebhookTarget;
use muster_machines::keys;
use muster_machines::run::{LeaseTimes, MachineMetrics, Machines, MachinesSettings, WallClock};
use muster_machines::types::{Machine, crds};
use muster_testkit::{OwnKubernetes, eventually};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The namespace of reservations.
pub(crate) const OURS: &str = "imperator-system";

/// The namespace of guests.
pub(crate) const GUESTS: &str = "guests";

pub(crate) struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap())
    }
}

/// A Kubernetes with the custom resources, and a namespace for guests.
pub(crate) struct Site {
    // Stopped when this value is dropped.
    pub(crate) kubernetes: OwnKubernetes,
    /// The client of users and of servers: both are the same user, so that no check may exempt the server's user.
    pub(crate) client: Client,
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
        let site = Self { kubernetes, client };
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
    pub(crate) async fn replica_with(
        &self,
        name: &str,
        change: impl FnOnce(&mut MachinesSettings),
    ) -> Machines {
        let (listener, target) = listener();
        ready(self.start(name, listener, target, change).await).await
    }

    /// A server that the API server calls at another address than the one that the server listens on.
    pub(crate) async fn replica_behind(
        &self,
        name: &str,
        listener: TcpListener,
        target: WebhookTarget,
    ) -> Machines {
        ready(self.start(name, listener, target, |_| {}).await).await
    }

    /// Starts a server and does not wait until it is ready; returns the error if it does not start.
    pub(crate) async fn try_start(
        &self,
        name: &str,
        change: impl FnOnce(&mut MachinesSettings),
    ) -> Result<Machines, String> {
        let (listener, target) = listener();
        self.start(name, listener, target, change).await.map_err(|error| format!("{error:#}"))
    }

    /// The reason why a server with these settings does not start.
    pub(crate) async fn refused_start(&self, change: impl FnOnce(&mut MachinesSettings)) -> String {
        match self.try_start("refused", change).await {
            Ok(_) => panic!("it has started"),
            Err(error) => error,
        }
    }

    async fn start(
        &self,
        name: &str,
        listener: TcpListener,
        target: WebhookTarget,
        change: impl FnOnce(&mut MachinesSettings),
    ) -> anyhow::Result<Machines> {
        let mut settings =
            MachinesSettings::new(OURS.to_owned(), name.to_owned(), target, Arc::new(SystemClock));
        settings.lease = LeaseTimes::within(Duration::from_secs(2));
        change(&mut settings);
        let metrics = MachineMetrics::register(&mut Registry::default());
        Machines::start(self.client.clone(), settings, listener, metrics).await
    }

    /// Creates a Machine whose group has its name.
    pub(crate) async fn create_machine(&self, name: &str, spec: &Value) -> kube::Result<Machine> {
        self.create_machine_of(name, name, spec).await
    }

    pub(crate) async fn create_machine_of(
        &self,
        name: &str,
        group: &str,
        spec: &Value,
    ) -> kube::Result<Machine> {
        let machine = json!({
            "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": name, "labels": {keys::MACHINE_GROUP: group}}, "spec": spec,
        });
        let machine: Machine = serde_json::from_value(machine).unwrap();
        Api::all(self.client.clone()).create(&PostParams::default(), &machine).await
    }

    /// Creates a Machine that no webhook checks; the leader restores the registration.
    pub(crate) async fn create_unchecked(&self, name: &str, group: &str, spec: &Value) {
        let registered = Api::<ValidatingWebhookConfiguration>::all(self.client.clone());
        eventually("it is created unchecked", PATIENCE, async || {
            for configuration in registered.list(&ListParams::default()).await.unwrap() {
                drop(registered.delete(&configuration.name_any(), &DeleteParams::default()).await);
            }
            self.create_machine_of(name, group, spec).await.map_err(|error| error.to_string())
        })
        .await;
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

    /// Returns once a type has these counts: maximum, reserved, used, waiting.
    pub(crate) async fn counts(&self, machine: &str, machine_type: &str, expected: [i32; 4]) {
        let machines = Api::<Machine>::all(self.client.clone());
        eventually(&format!("{machine_type} is counted {expected:?}"), PATIENCE, async || {
            let status =
                machines.get(machine).await.map_err(|error| unread(&error))?.status.unwrap_or_default();
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

    /// Waits until there is an event with this reason about a guest.
    pub(crate) async fn is_reported(&self, guest: &str, reason: &str) {
        let events = Api::<Event>::namespaced(self.client.clone(), GUESTS);
        let about = ListParams::default().fields(&format!("involvedObject.name={guest},reason={reason}"));
        eventually(&format!("{reason} is reported about {guest}"), PATIENCE, async || {
            let count = events.list(&about).await.unwrap().items.len();
            if count > 0 { Ok(()) } else { Err(count) }
        })
        .await;
    }

    /// The scheduling gates of a guest.
    pub(crate) async fn gates(&self, guest: &str) -> Vec<String> {
        let spec = self.pods().get(guest).await.unwrap().spec.unwrap_or_default();
        spec.scheduling_gates.unwrap_or_default().into_iter().map(|gate| gate.name).collect()
    }
}

/// The error of a custom resource's read, which is tried again: the API server may not serve it for a moment.
pub(crate) fn unread(error: &kube::Error) -> String {
    error.to_string()
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
