//! Faults around Muster: outages of the API server, conflicting writers, refusals, quotas and finalizers.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::{Namespace, Pod, ResourceQuota};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_core::change::{Change, Delete};
use muster_core::cluster::{ClusterStatus, Framework};
use muster_core::time::TimeSpan;
use muster_engine::ChangeRequest;
use muster_testkit::{Component, Operator, eventually};
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{Harness, PATIENCE, caller, exactly};

const RAY_CLUSTER: [&str; 3] = ["ray.io", "v1", "RayCluster"];
const DEPLOYMENT: [&str; 3] = ["apps", "v1", "Deployment"];

async fn merge(objects: &Api<DynamicObject>, name: &str, body: &Value) {
    objects.patch(name, &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_api_server_delays_a_resize() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    let Some(_) = own.operator(Operator::KubeRay).await else { return };
    let Some(harness) = Harness::on((*own).clone()).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;

    own.kill(Component::ApiServer).await;
    let action = harness.submit(ActionKind::ClusterResize, &cluster, None, exactly(3)).await;
    let tried =
        async || harness.engine.store().action(action).await.unwrap().filter(|action| action.tries > 0);
    harness.until("a failed attempt", tried).await;
    assert_eq!(harness.workers(cluster.id).await.len(), 1, "an unknown worker does not count as gone");
    own.start(Component::ApiServer).await;

    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(harness.workers(cluster.id).await.len(), 3);
    assert_eq!(harness.events(cluster.id, "NodeLost").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_during_an_outage_of_the_watch_is_observed_afterwards() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    let Some(_) = own.operator(Operator::KubeRay).await else { return };
    let Some(harness) = Harness::on((*own).clone()).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    // After a restart the API server answers to every resumed watch that its position has expired.
    own.kill(Component::ApiServer).await;
    own.start(Component::ApiServer).await;
    harness.objects(RAY_CLUSTER).delete("fred", &DeleteParams::default()).await.unwrap();
    let gone = async || Some(harness.cluster(cluster.id).await).filter(|row| row.deleted_at.is_some());
    harness.until("the row is deleted", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resize_succeeds_beside_a_writer_who_never_stops() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    let objects = harness.objects(RAY_CLUSTER);
    let others = objects.clone();
    let busy = tokio::spawn(async move {
        for round in 0_u32.. {
            let body = json!({"spec": {"autoscalerOptions": {"idleTimeoutSeconds": 1 + round % 100}}});
            drop(others.patch("fred", &PatchParams::default(), &Patch::Merge(body)).await);
        }
    });
    let action = harness.resized(&cluster, 3).await;
    busy.abort();
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let spec = objects.get("fred").await.unwrap().data["spec"].clone();
    assert_eq!(spec["workerGroupSpecs"][0]["replicas"], 3);
    assert!(spec["autoscalerOptions"]["idleTimeoutSeconds"].is_number(), "the other writer's changes stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_message_of_an_admission_policy_reaches_the_user() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    let rule = AtMostThree::set(&harness).await;
    let action = harness.resized(&cluster, 5).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.contains("three are enough, says the admin"), "{}", action.status_reason);
    assert_eq!(harness.cluster(cluster.id).await.desired(), 1, "the row has the size of the object");
    rule.lift().await;
}

/// An admission policy of one namespace, which limits groups to three workers.
struct AtMostThree {
    name: String,
    rules: Api<ValidatingAdmissionPolicy>,
    bindings: Api<ValidatingAdmissionPolicyBinding>,
}

impl AtMostThree {
    async fn set(harness: &Harness) -> Self {
        let (namespace, client) = (harness.namespace.name(), harness.kubernetes.client());
        let (rules, bindings) = (Api::all(client.clone()), Api::all(client));
        let rule = json!({
            "metadata": {"name": namespace},
            "spec": {
                "matchConstraints": {"resourceRules": [{"apiGroups": ["ray.io"], "apiVersions": ["v1"],
                    "operations": ["UPDATE"], "resources": ["rayclusters"]}]},
                "validations": [{"expression": "object.spec.workerGroupSpecs.all(g, g.replicas <= 3)",
                    "message": "three are enough, says the admin"}],
            },
        });
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        let binding = json!({
            "metadata": {"name": namespace},
            "spec": {"policyName": namespace, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": selector}},
        });
        let rule = serde_json::from_value(rule).unwrap();
        rules.create(&PostParams::default(), &rule).await.unwrap();
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
        // The API server applies it once its own watch has reported it.
        let objects = harness.objects(RAY_CLUSTER);
        let many = json!([{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 9}]);
        let many = Patch::<()>::Json(serde_json::from_value(many).unwrap());
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        eventually("a rule that the API server applies", PATIENCE, async || {
            match objects.patch("fred", &dry, &many).await {
                Ok(_) => Err("the object is accepted"),
                Err(_) => Ok(()),
            }
        })
        .await;
        Self { name: namespace.to_owned(), rules, bindings }
    }

    async fn lift(self) {
        drop(self.bindings.delete(&self.name, &DeleteParams::default()).await);
        drop(self.rules.delete(&self.name, &DeleteParams::default()).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_being_deleted_refuses_new_clusters() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    // The namespace remains as long as this pod, whose finalizer no controller removes.
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "stays", "labels": {"muster.test/driver": "true"}, "finalizers": ["example.test/stays"]},
        "spec": {"containers": [{"name": "c", "image": "example.test/it:1"}]},
    }))
    .unwrap();
    let pods = harness.namespace.api::<Pod>();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(harness.kubernetes.client());
    namespaces.delete(harness.namespace.name(), &DeleteParams::default()).await.unwrap();

    let action = harness.try_create(&harness.cluster_request(Framework::Ray, 1)).await.unwrap();
    let action = harness.ended(action).await;
    pods.patch("stays", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
        .await
        .unwrap();
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.contains("because it is being terminated"), "{}", action.status_reason);
}

/// A quota that allows no clusters.
async fn no_clusters(harness: &Harness) {
    let quota: ResourceQuota = serde_json::from_value(json!({
        "metadata": {"name": "none"}, "spec": {"hard": {"count/rayclusters.ray.io": "0"}},
    }))
    .expect("a quota");
    let quotas = harness.namespace.api::<ResourceQuota>();
    quotas.create(&PostParams::default(), &quota).await.expect("a quota");
    let counted = |quota: &ResourceQuota| quota.status.as_ref().is_some_and(|status| status.hard.is_some());
    harness.namespace.wait("the quota counts", &quotas, "none", Duration::from_mins(1), counted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_on_clusters_fails_the_creation() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    no_clusters(&harness).await;
    let action = harness.try_create(&harness.cluster_request(Framework::Ray, 1)).await.unwrap();
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.contains("exceeded quota: none"), "{}", action.status_reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_too_large_fails_with_that_reason() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let (cluster, mut profile) = harness.cluster_request(Framework::Ray, 1);
    let env = json!({"env": {"MUCH": "x".repeat(2 << 20)}});
    profile.properties.insert("head".to_owned(), env);
    let action = harness.try_create(&(cluster, profile)).await.unwrap();
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.contains("too large"), "{}", action.status_reason);
}

#[rstest]
#[case::of_the_object(Framework::Ray, RAY_CLUSTER, "fred", "RayCluster 'fred'")]
#[case::of_a_part(Framework::Spark, DEPLOYMENT, "fred-w", "Deployment 'fred-w'")]
#[tokio::test(flavor = "multi_thread")]
async fn a_finalizer_that_never_ends_is_named(
    #[case] framework: Framework,
    #[case] kind: [&str; 3],
    #[case] name: &str,
    #[case] what: &str,
) {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(framework, 1).await;
    let objects = harness.objects(kind);
    merge(&objects, name, &json!({"metadata": {"finalizers": ["example.test/never"]}})).await;
    let change = ChangeRequest {
        change: Change::DeleteCluster(Delete::default()),
        cluster: cluster.clone(),
        node: None,

        on_conflict: OnConflict::Queue,
        timeout: Some(TimeSpan::from_secs(5)),
    };
    let action = harness.engine.submit(change, caller()).await.unwrap().action.id;
    let words = format!("{what} waits for its finalizers: example.test/never");
    let named =
        async || Some(harness.cluster(cluster.id).await).filter(|row| row.status_reason.contains(&words));
    let row = harness.until("named", named).await;
    assert_eq!(row.status, ClusterStatus::Deleting);
    let action = harness.ended(action).await;
    merge(&objects, name, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.contains(&words), "{}", action.status_reason);
    // Once the finalizer is removed the row follows, although no action waits for it any more.
    let gone = async || Some(harness.cluster(cluster.id).await).filter(|row| row.deleted_at.is_some());
    harness.until("the row is deleted", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_pod_does_not_count_as_a_member() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(harness) = Harness::on(kubernetes).await else { return };
    let cluster = harness.created(Framework::Spark, 2).await;
    let victim = harness.workers(cluster.id).await[0].name.clone();
    let pods = harness.namespace.api::<Pod>();
    let status = json!({"status": {"phase": "Failed", "reason": "Evicted", "conditions": null}});
    pods.patch_status(&victim, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let action = harness.resized(&cluster, 3).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert_eq!(harness.workers(cluster.id).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_deleted_during_its_creation_leaves_nothing_to_the_next_of_its_name() {
    let Some(harness) = Harness::with(Operator::Dask).await else { return };
    for workers in [2, 1, 3, 1] {
        let new = harness.cluster_request(Framework::Dask, workers);
        harness.try_create(&new).await.unwrap();
        let deleted = harness.submit_preempting_delete(new.0.id).await;
        let deleted = harness.ended(deleted).await;
        assert_eq!(deleted.status, ActionStatus::Succeeded, "{}", deleted.status_reason);
    }
    let cluster = harness.created(Framework::Dask, 1).await;
    assert_eq!((cluster.desired(), harness.workers(cluster.id).await.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_creation_failed_is_created_by_a_recovery() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let quotas = harness.namespace.api::<ResourceQuota>();
    no_clusters(&harness).await;
    let new = harness.cluster_request(Framework::Ray, 1);
    let created = harness.try_create(&new).await.unwrap();
    assert_eq!(harness.ended(created).await.status, ActionStatus::Failed);
    let scaled = harness.resized(&new.0, 2).await;
    let words = "it does not exist, because its creation failed: recover or delete it";
    assert_eq!(scaled.status_reason, words);

    quotas.delete("none", &DeleteParams::default()).await.unwrap();
    let objects = harness.objects(RAY_CLUSTER);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    // The quota controller observes the deletion a moment later.
    eventually("a namespace without a quota", PATIENCE, async || {
        objects.create(&dry, &super::discovery::plain_ray("barney", 0)).await
    })
    .await;
    let recovered = harness.done(ActionKind::ClusterRecover, &new.0, json!({})).await;
    assert_eq!(recovered.status, ActionStatus::Succeeded, "{}", recovered.status_reason);
    let row = harness.cluster(new.0.id).await;
    assert_eq!((row.status, harness.nodes(row.id).await.len()), (ClusterStatus::Active, 2));
}
