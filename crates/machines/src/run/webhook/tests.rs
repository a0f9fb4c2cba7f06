use futures::stream;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::Event;
use muster_core::time::Timestamp;
use prometheus_client::registry::Registry;
use rstest::rstest;

use super::*;
use crate::run::fake::FakeKubernetes;
use crate::run::world::ObservedNode;

const MACHINES: &str = "/apis/imperator.tenzen-y.io/v1alpha1/machines";

struct NoClock;

impl WallClock for NoClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000)
    }
}

/// A Machine of the group `g` with slots of a type on the node `n1`.
fn machine(name: &str, minute: u32, machine_type: &str, available: i32) -> Machine {
    let spec = json!({"cpu": "1", "memory": "1Gi"});
    let machine = json!({
        "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "uid": name, "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z"),
            "labels": {keys::MACHINE_GROUP: "g"}},
        "spec": {
            "nodePool": [{"name": "n1", "mode": "ready", "machineType": [{"name": machine_type}]}],
            "machineTypes": [{"name": machine_type, "available": available, "spec": spec}],
        },
    });
    serde_json::from_value(machine).unwrap()
}

fn listed<K>(
    objects: Vec<K>,
) -> impl futures::Stream<Item = Result<Event<K>, kube::runtime::watcher::Error>> {
    let listed = objects.into_iter().map(Event::InitApply);
    stream::iter([Event::Init].into_iter().chain(listed).chain([Event::InitDone]).map(Ok).collect::<Vec<_>>())
}

/// A reviewer whose caches have these Machines and nodes.
async fn reviewer(client: Client, machines: Vec<Machine>, nodes: &[&str]) -> Reviewer {
    let world = ObservedWorld::new();
    world.machines.clone().follow(listed(machines), |machine| machine, |_| {}).await;
    let node = |name: &&str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let nodes: Vec<Node> = nodes.iter().map(node).collect();
    world.nodes.clone().follow(listed(nodes), |node| ObservedNode(Arc::new(node)), |_| {}).await;
    let metrics = MachineMetrics::register(&mut Registry::default());
    Reviewer { world, clock: Arc::new(NoClock), client, metrics }
}

fn request(object: Value) -> ReviewRequest {
    ReviewRequest { uid: String::new(), namespace: "n".to_owned(), object, old_object: Value::Null }
}

fn guest(machine_type: &str) -> ReviewRequest {
    let labels =
        json!({keys::MACHINE_GROUP: "g", keys::MACHINE_TYPE: machine_type, keys::POD_ROLE: keys::GUEST});
    request(
        json!({"metadata": {"name": "guest", "labels": labels}, "spec": {"containers": [{"name": "main"}]}}),
    )
}

/// The message of a refusal; empty if the request is accepted.
fn refusal(verdict: ReviewVerdict) -> String {
    match verdict {
        ReviewVerdict::Refused(message) => message,
        _ => String::new(),
    }
}

#[tokio::test]
async fn a_guest_gets_the_types_of_the_oldest_machine_of_its_group() {
    let rivals = (1..60).map(|minute| machine(&format!("rival-{minute}"), minute, "other", 1));
    let machines = rivals.chain([machine("oldest", 0, "medium", 1)]).collect();
    let reviewer = reviewer(crate::run::unreachable_client(), machines, &[]).await;
    let verdict = reviewer.inject(&guest("medium")).await;
    assert!(matches!(verdict, ReviewVerdict::Changed { .. }), "{verdict:?}");
    let verdict = reviewer.inject(&guest("other")).await;
    assert!(matches!(verdict, ReviewVerdict::Refused(_)), "{verdict:?}");
}

#[rstest]
#[case::of_a_new_machine(None, Some(machine("m", 0, "medium", 1)), "")]
#[case::of_a_new_type(Some(machine("m", 0, "other", 1)), Some(machine("m", 0, "medium", 1)), "")]
#[case::of_a_type_that_got_slots(Some(machine("m", 0, "medium", 0)), Some(machine("m", 0, "medium", 1)), "")]
#[case::of_no_machine(None, None, "failed to find machine-group g")]
#[case::of_no_type(
    None,
    Some(machine("m", 0, "other", 1)),
    "machine-group, g does not have machine-type, medium"
)]
#[case::of_no_slots(
    None,
    Some(machine("m", 0, "medium", 0)),
    "name: guest, namespace: n; there is no medium left"
)]
#[tokio::test]
async fn a_guest_is_not_refused_by_a_stale_cache(
    #[case] cached: Option<Machine>,
    #[case] stored: Option<Machine>,
    #[case] expected: &str,
) {
    let kubernetes = FakeKubernetes::default();
    if let Some(stored) = stored {
        kubernetes.store(&format!("{MACHINES}/m"), json!(stored));
    }
    let reviewer = reviewer(kubernetes.client().await, cached.into_iter().collect(), &[]).await;
    assert_eq!(refusal(reviewer.inject(&guest("medium")).await), expected);
}

#[tokio::test]
async fn a_guest_that_the_cache_accepts_needs_no_read() {
    let kubernetes = FakeKubernetes::default();
    let reviewer = reviewer(kubernetes.client().await, vec![machine("m", 0, "medium", 1)], &[]).await;
    assert_eq!(refusal(reviewer.inject(&guest("medium")).await), "");
    assert_eq!(kubernetes.take_requests(), [""; 0]);
}

#[tokio::test]
async fn the_cache_decides_while_kubernetes_does_not_answer() {
    let reviewer = reviewer(crate::run::unreachable_client(), Vec::new(), &[]).await;
    assert_eq!(refusal(reviewer.inject(&guest("medium")).await), "failed to find machine-group g");
    let created = request(json!(machine("m", 0, "medium", 1)));
    assert_eq!(refusal(reviewer.validate(&created).await), "failed to find node n1 in Kubernetes Cluster");
}

#[rstest]
#[case::its_node_has_just_joined(&[], &["n1"], false, "")]
#[case::its_node_is_missing(&[], &[], false, "failed to find node n1 in Kubernetes Cluster")]
#[case::the_other_of_its_group_is_gone(&["n1"], &[], false, "")]
#[case::the_other_of_its_group_is_there(&["n1"], &[], true, "machineGroup label is duplicate, machineGroup must be set as unique")]
#[tokio::test]
async fn a_machine_is_not_refused_by_a_stale_cache(
    #[case] cached: &[&str],
    #[case] stored: &[&str],
    #[case] has_rival: bool,
    #[case] expected: &str,
) {
    let kubernetes = FakeKubernetes::default();
    let rival = machine("rival", 0, "medium", 1);
    if has_rival {
        kubernetes.store(&format!("{MACHINES}/rival"), json!(rival));
    }
    for node in stored {
        kubernetes.store(&format!("/api/v1/nodes/{node}"), json!({"metadata": {"name": node}}));
    }
    let reviewer = reviewer(kubernetes.client().await, vec![rival], cached).await;
    let created = request(json!(machine("m", 1, "medium", 1)));
    assert_eq!(refusal(reviewer.validate(&created).await), expected);
}
