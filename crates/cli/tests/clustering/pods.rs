//! Nodes that are pods of a real Kubernetes, placed by policies.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use muster_testkit::{Kubernetes, Namespace};
use serde_json::{Value, json};

use crate::server::{Kind, Server};

const ZONE: &str = "topology.kubernetes.io/zone";

struct PodScenario {
    kubernetes: Kubernetes,
    namespace: Namespace,
    server: Server,
}

impl PodScenario {
    async fn open() -> Option<Self> {
        let kubernetes = muster_testkit::kubernetes().await?;
        let namespace = kubernetes.namespace().await;
        let kubeconfig = kubernetes.kubeconfig().to_str().expect("a path of plain letters").to_owned();
        let arguments = ["--kubeconfig", &kubeconfig, "--namespace", namespace.name()];
        let server = Server::start_with(Kind::Sqlite, &arguments, |_| {}).await?;
        Some(Self { kubernetes, namespace, server })
    }

    /// Creates a profile of pods with these fields beside their container.
    async fn profile(&self, name: &str, mut spec: Value) -> String {
        spec["containers"] = json!([{"name": "main", "image": "example.test/it:1"}]);
        let properties = json!({"template": {"spec": spec}, "namespace": self.namespace.name()});
        let spec = json!({"type": "kubernetes.pod", "version": "1.0", "properties": properties});
        let made = self.server.post("/profiles", json!({"profile": {"name": name, "spec": spec}})).await;
        assert_eq!(made.status, 201, "{}", made.body);
        made.body["profile"]["id"].as_str().expect("an id").to_owned()
    }

    async fn cluster(&self, workers: u32) -> Value {
        let profile = self.profile("pods", json!({})).await;
        let cluster =
            self.server.cluster("c", json!({"profile_id": profile, "desired_capacity": workers})).await;
        assert_eq!(cluster["status"], "ACTIVE", "{cluster}");
        cluster
    }

    async fn attach(&self, cluster: &Value, kind: &str, properties: Value) {
        let spec =
            json!({"type": format!("senlin.policy.{kind}"), "version": "1.0", "properties": properties});
        let attached = self.server.attach_new(cluster, kind, spec).await;
        assert_eq!(attached["status"], "SUCCEEDED", "{attached}");
    }

    async fn pods(&self) -> Vec<Pod> {
        self.namespace.api::<Pod>().list(&ListParams::default()).await.expect("a list").items
    }

    /// Counts the running pods in each zone.
    async fn zones(&self) -> BTreeMap<String, usize> {
        let machines: Api<Node> = Api::all(self.kubernetes.client());
        let mut zones = BTreeMap::new();
        for pod in self.pods().await {
            let machine = pod.spec.and_then(|spec| spec.node_name).expect("it was scheduled");
            let machine = machines.get(&machine).await.expect("the machine exists");
            let zone = machine.metadata.labels.expect("labels")[ZONE].clone();
            *zones.entry(zone).or_default() += 1;
        }
        zones
    }

    /// Returns the numbers of nodes and profiles.
    async fn rows(&self) -> [usize; 2] {
        let count = async |what: &str| {
            let list = self.server.get(&format!("/{what}")).await;
            list.body[what].as_array().map(Vec::len).expect("a list")
        };
        [count("nodes").await, count("profiles").await]
    }

    async fn act(&self, cluster: &Value, operation: Value) -> Value {
        let action = self.server.act(cluster, operation).await;
        assert_eq!(action["status"], "SUCCEEDED", "{action}");
        action
    }
}

/// Returns the labels and annotations of a pod, which Muster may write; its node writes the status.
fn written(pod: &Pod) -> [Option<BTreeMap<String, String>>; 2] {
    [pod.metadata.labels.clone(), pod.metadata.annotations.clone()]
}

fn counts(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs.iter().map(|(zone, count)| ((*zone).to_owned(), *count)).collect()
}

#[tokio::test]
async fn policies_decide_where_pods_run_and_which_are_removed() {
    let Some(scenario) = PodScenario::open().await else { return };
    let cluster = scenario.cluster(0).await;
    let zones = json!([{"name": "zone-a", "weight": 200}, {"name": "zone-b", "weight": 100}]);
    scenario.attach(&cluster, "zone_placement", json!({"zones": zones})).await;
    scenario.act(&cluster, json!({"scale_out": {"count": 6}})).await;
    assert_eq!(scenario.zones().await, counts(&[("zone-a", 4), ("zone-b", 2)]));

    // The distribution stays, and the oldest of each zone is removed.
    let properties = json!({"criteria": "OLDEST_FIRST", "destroy_after_deletion": true, "grace_period": 0});
    scenario.attach(&cluster, "deletion", properties).await;
    scenario.act(&cluster, json!({"scale_in": {"count": 3}})).await;
    assert_eq!(scenario.zones().await, counts(&[("zone-a", 2), ("zone-b", 1)]));

    // A pod that another program deletes is recreated in its zone.
    let pods = scenario.pods().await;
    let lost = pods[0].metadata.name.clone().expect("a name");
    scenario
        .namespace
        .api::<Pod>()
        .delete(&lost, &DeleteParams::default())
        .await
        .expect("the deletion is accepted");
    scenario.server.until("/clusters/c", "cluster", "WARNING").await;
    scenario.act(&cluster, json!({"recover": {}})).await;
    assert_eq!(scenario.zones().await, counts(&[("zone-a", 2), ("zone-b", 1)]));

    let gone = scenario.server.delete("/clusters/c").await;
    assert_eq!(gone.status, 202, "{}", gone.body);
    scenario.server.wait_for_end(&gone.action()).await;
    assert_eq!(scenario.pods().await.len(), 0);
}

#[tokio::test]
async fn pods_with_anti_affinity_run_on_separate_nodes() {
    let Some(scenario) = PodScenario::open().await else { return };
    let cluster = scenario.cluster(0).await;
    let group = json!({"servergroup": {"name": "apart", "policies": "anti-affinity"}});
    scenario.attach(&cluster, "affinity", group).await;
    scenario.act(&cluster, json!({"scale_out": {"count": 3}})).await;
    let machines: Vec<_> = scenario.pods().await.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
    let apart: std::collections::BTreeSet<_> = machines.iter().collect();
    assert_eq!((machines.len(), apart.len()), (3, 3), "{machines:?}");
}

#[tokio::test]
async fn a_pod_is_an_orphan_joins_leaves_and_is_adopted() {
    let Some(scenario) = PodScenario::open().await else { return };
    let cluster = scenario.cluster(1).await;
    let profile = cluster["profile_id"].as_str().expect("an id").to_owned();
    let made = scenario.server.post("/nodes", json!({"node": {"name": "lone", "profile_id": profile}})).await;
    assert_eq!(made.status, 202, "{}", made.body);
    scenario.server.wait_for_end(&made.action()).await;
    scenario.server.until("/nodes/lone", "node", "ACTIVE").await;
    scenario.act(&cluster, json!({"add_nodes": {"nodes": ["lone"]}})).await;
    assert_eq!(
        scenario.server.get("/clusters/c").await.body["cluster"]["nodes"].as_array().map(Vec::len),
        Some(2)
    );
    scenario.act(&cluster, json!({"del_nodes": {"nodes": ["lone"]}})).await;
    assert_eq!(scenario.pods().await.len(), 2, "it left, and lives on");

    // A foreign pod becomes a node and is deleted as one.
    let theirs: Pod = serde_json::from_value(json!({
        "metadata": {"name": "theirs"}, "spec": {"containers": [{"name": "c", "image": "example.test/it:2"}]},
    }))
    .expect("a pod");
    scenario.namespace.api::<Pod>().create(&PostParams::default(), &theirs).await.expect("it is made");
    let identity = format!("{}/theirs", scenario.namespace.name());
    let before =
        (scenario.namespace.api::<Pod>().get("theirs").await.expect("it exists"), scenario.rows().await);
    let body = json!({"identity": identity, "type": "kubernetes.pod-1.0"});
    let shown = scenario.server.post("/nodes/adopt-preview", body).await;
    assert_eq!(shown.status, 200, "{}", shown.body);
    let image = &shown.body["node_profile"]["node_preview"]["properties"]["template"]["spec"]["containers"]
        [0]["image"];
    assert_eq!(image, "example.test/it:2", "{}", shown.body);
    let after =
        (scenario.namespace.api::<Pod>().get("theirs").await.expect("it exists"), scenario.rows().await);
    assert_eq!(after.1, before.1, "nothing is stored");
    assert_eq!(written(&after.0), written(&before.0), "nothing is written");
    let body = json!({"identity": identity, "type": "kubernetes.pod-1.0", "name": "taken"});
    let taken = scenario.server.post("/nodes/adopt", body).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
    let gone = scenario.server.delete("/nodes/taken").await;
    assert_eq!(gone.status, 202, "{}", gone.body);
    let ended = scenario.server.wait_for_end(&gone.action()).await;
    assert_eq!(ended["status"], "SUCCEEDED", "{ended}");
    assert!(scenario.namespace.api::<Pod>().get_opt("theirs").await.expect("an answer").is_none());
}

/// A Kubernetes node for one test, and the fields with which pods run only there.
struct Machine {
    machines: Api<Node>,
    name: String,
    spec: Value,
}

impl Machine {
    async fn add(scenario: &PodScenario) -> Self {
        let machines: Api<Node> = Api::all(scenario.kubernetes.client());
        let name = scenario.namespace.name().to_owned();
        let machine: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name},
                "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {"taints": [{"key": "muster.test/own", "effect": "NoSchedule", "value": name}]},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
                "capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }))
        .expect("a machine");
        machines.create(&PostParams::default(), &machine).await.expect("it is made");
        let tolerations = json!([{"key": "muster.test/own", "operator": "Exists"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]);
        let spec = json!({"nodeSelector": {"kubernetes.io/hostname": name}, "tolerations": tolerations});
        Self { machines, name, spec }
    }

    async fn remove(&self) {
        self.machines.delete(&self.name, &DeleteParams::default()).await.expect("the deletion is accepted");
    }
}

#[tokio::test]
async fn a_pod_whose_node_is_gone_is_unhealthy() {
    let Some(scenario) = PodScenario::open().await else { return };
    let machine = Machine::add(&scenario).await;
    let profile = scenario.profile("own", machine.spec.clone()).await;
    let made = scenario.server.post("/nodes", json!({"node": {"name": "lone", "profile_id": profile}})).await;
    scenario.server.wait_for_end(&made.action()).await;
    scenario.server.until("/nodes/lone", "node", "ACTIVE").await;
    machine.remove().await;
    let checked = scenario.server.post("/nodes/lone/actions", json!({"check": {}})).await;
    assert_eq!(checked.status, 202, "{}", checked.body);
    scenario.server.wait_for_end(&checked.action()).await;
    let shown = scenario.server.get("/nodes/lone").await.body["node"].clone();
    assert_eq!(shown["status"], "ERROR", "{shown}");
}

#[tokio::test]
async fn a_health_policy_with_node_checks_recovers_pods_of_a_lost_node() {
    let Some(scenario) = PodScenario::open().await else { return };
    let machine = Machine::add(&scenario).await;
    let profile = scenario.profile("own", machine.spec.clone()).await;
    let cluster = scenario.server.cluster("c", json!({"profile_id": profile, "desired_capacity": 1})).await;
    assert_eq!(cluster["status"], "ACTIVE", "{cluster}");
    let polling = json!({
        "detection": {"interval": 1, "detection_modes": [{"type": "HYPERVISOR_STATUS_POLLING"}]},
        "recovery": {"actions": [{"name": "RECREATE"}]},
    });
    let spec = json!({"type": "senlin.policy.health", "version": "1.1", "properties": polling});
    let attached = scenario.server.attach_new(&cluster, "machines", spec).await;
    assert_eq!(attached["status"], "SUCCEEDED", "{attached}");
    machine.remove().await;
    let node = cluster["nodes"][0].as_str().expect("a node");
    scenario.server.until(&format!("/nodes/{node}"), "node", "RECOVERING").await;
    let events = scenario.server.get("/events").await.body["events"].clone();
    let why = format!("its machine '{}' is gone", machine.name);
    let has_reason =
        |event: &Value| event["status_reason"].as_str().is_some_and(|printed| printed.contains(&why));
    assert!(events.as_array().expect("events").iter().any(has_reason), "{events:#}");
}
