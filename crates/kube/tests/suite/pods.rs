//! Nodes that are single pods.

use k8s_openapi::api::core::v1::{Node as Machine, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::node::NodeStatus;
use muster_core::profile::{Profile, ProfileType};
use muster_testkit::Operator;
use serde_json::{Value, json};

use crate::harness::{Harness, exactly};

pub(crate) fn of_pods(harness: &Harness, workers: u32) -> (Cluster, Profile) {
    let (cluster, profile) = harness.cluster_request(muster_core::cluster::Framework::Ray, workers);
    let kind = ProfileType::new("kubernetes.pod", "1.0");
    let container = json!({"name": "main", "image": "example.test/it:1"});
    let properties = json!({"template": {"spec": {"containers": [container]}}});
    let Value::Object(properties) = properties else { unreachable!("a map") };
    let cluster = Cluster { framework: None, profile_type: kind.clone(), ..cluster };
    (cluster, Profile { kind, properties, ..profile })
}

pub(crate) async fn pods(harness: &Harness) -> Vec<String> {
    let all = harness.namespace.api::<Pod>().list(&ListParams::default()).await.unwrap();
    let mut names: Vec<String> = all.items.into_iter().filter_map(|pod| pod.metadata.name).collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_created_lost_recovered_and_deleted_one_by_one() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let new = of_pods(&harness, 2);
    let action = harness.try_create(&new).await.unwrap();
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let cluster = harness.cluster(new.0.id).await;
    assert_eq!(cluster.status, ClusterStatus::Active);
    let action = harness.resized(&cluster, 3).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(pods(&harness).await.len(), 3);

    // Another tool deletes a pod: its node is lost until a user recovers the cluster.
    let nodes = harness.workers(cluster.id).await;
    let lost = nodes[0].clone();
    let name = lost.physical_id.as_deref().unwrap().split('/').nth(1).unwrap();
    harness.namespace.api::<Pod>().delete(name, &DeleteParams::default()).await.unwrap();
    let is_lost = async || {
        let nodes = harness.workers(cluster.id).await;
        nodes.into_iter().find(|node| node.id == lost.id && node.status == NodeStatus::Error)
    };
    harness.until("lost", is_lost).await;
    let recovered = harness.done(ActionKind::ClusterRecover, &cluster, json!({})).await;
    assert_eq!(recovered.status, ActionStatus::Succeeded, "{}", recovered.status_reason);
    let nodes = harness.workers(cluster.id).await;
    assert!(nodes.iter().all(|node| node.status == NodeStatus::Active), "{nodes:?}");
    assert!(nodes.iter().any(|node| node.id == lost.id), "the same node");

    // The chosen node is removed.
    let mut inputs = exactly(2);
    inputs["candidates"] = json!([lost.id]);
    let action = harness.done(ActionKind::ClusterResize, &cluster, inputs).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert!(harness.workers(cluster.id).await.iter().all(|node| node.id != lost.id));
    assert_eq!(pods(&harness).await.len(), 2);

    let action = harness.done(ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(pods(&harness).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_its_label_stays_its_node_and_is_labelled_by_actions_only() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(harness) = Harness::on(kubernetes).await else { return };
    let new = of_pods(&harness, 1);
    let action = harness.try_create(&new).await.unwrap();
    assert_eq!(harness.ended(action).await.status, ActionStatus::Succeeded);
    let before = harness.workers(new.0.id).await.remove(0);
    let (api, name) = (harness.namespace.api::<Pod>(), pods(&harness).await.remove(0));
    let unlabel = Patch::Merge(json!({"metadata": {"labels": {"muster.dev/node": null}}}));
    api.patch(&name, &PatchParams::default(), &unlabel).await.unwrap();

    // The watch reports the lost label before the new node's pod, so it is known from here on.
    let resized = harness.resized(&new.0, 2).await;
    assert_eq!(resized.status, ActionStatus::Succeeded, "{}", resized.status_reason);
    let checked = harness.done(ActionKind::ClusterCheck, &new.0, json!({})).await;
    assert_eq!(checked.status, ActionStatus::Succeeded, "{}", checked.status_reason);
    let after = harness.workers(new.0.id).await;
    let same = after.iter().find(|node| node.id == before.id).expect("it is a member");
    assert_eq!((same.status, &same.physical_id), (NodeStatus::Active, &before.physical_id));
    assert_eq!((after.len(), pods(&harness).await.len()), (2, 2));
    let labels = api.get(&name).await.unwrap().metadata.labels.unwrap_or_default();
    assert_eq!(labels.get("muster.dev/node"), None, "observing writes nothing");
    assert_eq!(harness.events(new.0.id, "NodeLost").await, []);

    let deleted = harness.done(ActionKind::ClusterDelete, &new.0, json!({})).await;
    assert_eq!(deleted.status, ActionStatus::Succeeded, "{}", deleted.status_reason);
    assert_eq!(pods(&harness).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_field_of_a_template_is_named_and_creates_no_pod() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(harness) = Harness::on(kubernetes).await else { return };
    let (cluster, mut profile) = of_pods(&harness, 1);
    profile.properties["template"]["spec"]["restartPolize"] = json!("Never");
    let action = harness.try_create(&(cluster.clone(), profile)).await.unwrap();
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed, "{}", action.status_reason);
    let nodes = harness.workers(cluster.id).await;
    assert!(nodes[0].status_reason.contains(r#"unknown field "spec.restartPolize""#), "{nodes:?}");
    assert_eq!(pods(&harness).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unschedulable_pod_has_that_reason_until_a_machine_fits() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let mut new = of_pods(&harness, 1);
    let label = format!("muster.dev/{}", harness.namespace.name());
    new.1.properties["template"]["spec"]["nodeSelector"] = json!({&label: "here"});
    let action = harness.try_create(&new).await.unwrap();
    let says = async || {
        let row = harness.cluster(new.0.id).await;
        let node = harness.workers(row.id).await.into_iter().next()?;
        let words = "Unschedulable: 0/3 nodes are available";
        (node.status_reason.starts_with(words) && row.status_reason.contains(words)).then_some((row, node))
    };
    let (row, node) = harness.until("why the node does not start", says).await;
    assert_eq!((row.status, node.status), (ClusterStatus::Creating, NodeStatus::Creating));
    assert!(row.status_reason.starts_with(&format!("{}: ", node.name)), "{}", row.status_reason);

    let machines: Api<Machine> = Api::all(harness.kubernetes.client());
    let machine = machines.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    let labelled = async |value: Value| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {&label: value}}}));
        machines.patch(&machine, &PatchParams::default(), &patch).await.unwrap();
    };
    labelled(json!("here")).await;
    let action = harness.ended(action).await;
    labelled(Value::Null).await;
    assert_eq!(action.status_reason, "Cluster creation succeeded.");
    let row = harness.cluster(new.0.id).await;
    assert!(!row.status_reason.contains("Unschedulable"), "{}", row.status_reason);
    assert_eq!(harness.workers(new.0.id).await[0].status_reason, "Creation succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_by_force_while_it_starts_is_created_again() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(harness) = Harness::on(kubernetes).await else { return };
    let mut new = of_pods(&harness, 1);
    new.1.properties["template"]["spec"]["nodeSelector"] = json!({"muster.dev/machine": "none"});
    harness.try_create(&new).await.unwrap();
    let api = harness.namespace.api::<Pod>();
    let other_than = |known: Option<String>| {
        let api = api.clone();
        async move || {
            let pod = api.list(&ListParams::default()).await.unwrap().items.into_iter().next()?.metadata;
            (pod.uid != known).then_some((pod.name.unwrap_or_default(), pod.uid))
        }
    };
    let (name, uid) = harness.until("a pod", other_than(None)).await;
    let by_force = DeleteParams::default().grace_period(0);
    api.delete(&name, &by_force).await.unwrap();
    harness.until("another pod", other_than(uid)).await;
    let deleted = harness.submit_preempting_delete(new.0.id).await;
    assert_eq!(harness.ended(deleted).await.status, ActionStatus::Succeeded);
}
