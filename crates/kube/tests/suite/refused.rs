//! Refused requests, and their messages.

use k8s_openapi::api::core::v1::Service;
use kube::api::PostParams;
use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::{Cluster, Framework};
use muster_core::profile::{Profile, ProfileType};
use muster_engine::SubmitError;
use muster_store::StoreError;
use muster_store::reads::{ClusterQuery, Deleted};
use muster_testkit::Operator;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::Harness;

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_without_its_operator_names_the_operator() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    let Some(harness) = Harness::on((*own).clone()).await else { return };
    let refused = harness.try_create(&harness.cluster_request(Framework::Ray, 1)).await;
    let Err(SubmitError::Missing(missing)) = refused else { panic!("{refused:?}") };
    assert_eq!(
        missing.message,
        "ray clusters of flavor kuberay need the KubeRay operator (rayclusters.ray.io), which is not installed on this \
         Kubernetes: install it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_flavor_is_refused_with_the_known_ones() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let (cluster, profile) = harness.cluster_request(Framework::Ray, 1);
    let cluster = Cluster { flavor: Some("rey".to_owned()), ..cluster };
    let refused = harness.try_create(&(cluster, profile)).await;
    let Err(SubmitError::Missing(missing)) = refused else { panic!("{refused:?}") };
    assert!(
        missing.message.starts_with("unknown flavor 'rey' of ray: choose kuberay"),
        "{}",
        missing.message
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_an_external_cluster_is_taken() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    let theirs = super::discovery::plain_ray("fred", 0);
    objects.create(&PostParams::default(), &theirs).await.unwrap();
    // Once that cluster has a row, the name is taken; before that the creation of the object would fail.
    harness.discovered("fred").await;
    let refused = harness.try_create(&harness.cluster_request(Framework::Ray, 1)).await;
    assert!(matches!(refused, Err(SubmitError::Store(StoreError::NameTaken { .. }))), "{refused:?}");
    assert_eq!(objects.get("fred").await.unwrap().data["spec"]["workerGroupSpecs"][0]["replicas"], json!(0));
}

/// Asserts that a refused creation has stored nothing.
async fn assert_nothing_stored(harness: &Harness) {
    let query = ClusterQuery { deleted: Deleted::Include, ..ClusterQuery::default() };
    let rows = harness.fresh.store.clusters(&query).await.expect("rows").items;
    assert!(rows.is_empty(), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_not_served_is_named() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let (cluster, profile) = harness.cluster_request(Framework::Ray, 1);
    let cluster = Cluster { namespace: "nowhere".to_owned(), ..cluster };
    let refused = harness.try_create(&(cluster, profile)).await;
    let Err(SubmitError::Missing(missing)) = refused else { panic!("{refused:?}") };
    let words =
        format!("namespace 'nowhere' is not served by this server: choose {}", harness.namespace.name());
    assert!(missing.message.starts_with(&words), "{}", missing.message);
    assert_nothing_stored(&harness).await;
}

#[rstest]
#[case::of_an_operator(None)]
#[case::of_pods(Some(json!({"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}})))]
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_namespace_is_refused(#[case] pods: Option<Value>) {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    if kubernetes.operator(Operator::KubeRay).await.is_none() {
        return;
    }
    let other = |own: &str| format!("{own}-other");
    let Some(harness) = Harness::serving(kubernetes, |own| vec![own.to_owned(), other(own)]).await else {
        return;
    };
    let (cluster, mut profile) = harness.cluster_request(Framework::Ray, 0);
    let missing = other(harness.namespace.name());
    let mut cluster = Cluster { namespace: missing.clone(), ..cluster };
    if let Some(Value::Object(properties)) = pods {
        profile = Profile { kind: ProfileType::new("kubernetes.pod", "1.0"), properties, ..profile };
        cluster = Cluster { framework: None, profile_type: profile.kind.clone(), ..cluster };
    }
    let refused = harness.try_create(&(cluster.clone(), profile.clone())).await;
    let Err(SubmitError::NoNamespace(why)) = refused else { panic!("{refused:?}") };
    let words = "on this Kubernetes: create it, or choose another";
    assert_eq!(why, format!("namespace '{missing}' does not exist {words}"));
    assert_nothing_stored(&harness).await;

    let here = Cluster { namespace: harness.namespace.name().to_owned(), ..cluster };
    let created = harness.try_create(&(here, profile)).await.expect("the namespace exists");
    assert_eq!(harness.ended(created).await.status, ActionStatus::Succeeded);
}

#[rstest]
#[case::group_of_spark(Framework::Spark, |cluster: &mut Cluster| "small".clone_into(&mut cluster.groups[0].name),
    "the worker group of a cluster of flavor native is called 'default', not 'small'")]
#[case::name_of_spark(Framework::Spark, |cluster: &mut Cluster| "1st".clone_into(&mut cluster.object_name),
    "'1st' cannot be the name of a Service, which begins with a letter")]
#[case::long_name(Framework::Ray, |cluster: &mut Cluster| cluster.object_name = "x".repeat(54),
    &format!("'{}' has 54 characters, and clusters of flavor kuberay may have 53: choose a shorter name", "x".repeat(54)))]
#[case::label(Framework::Ray, |cluster: &mut Cluster| drop(cluster.labels.insert("a b".to_owned(), "x".to_owned())),
    "label 'a b' is invalid")]
#[case::label_of_a_groups_pods(Framework::Ray, |cluster: &mut Cluster| {
    cluster.groups[0].spec = json!({"node": {"pod": {"labels": {"a b": "x"}}}}).as_object().unwrap().clone();
}, "label 'a b' is invalid")]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_no_operator_could_create_is_refused_at_the_request(
    #[case] framework: Framework,
    #[case] spoil: fn(&mut Cluster),
    #[case] words: &str,
) {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let mut new = harness.cluster_request(framework, 1);
    spoil(&mut new.0);
    let refused = harness.try_create(&new).await;
    let Err(SubmitError::Invalid(why)) = refused else { panic!("{refused:?}") };
    assert!(why.starts_with(words), "{why}");
    assert_nothing_stored(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_labels_are_refused_in_a_change_too() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 0).await;
    let refused =
        harness.try_submit(ActionKind::ClusterUpdate, &cluster, json!({"labels": {"team": "-"}})).await;
    let Err(SubmitError::Invalid(why)) = refused else { panic!("{refused:?}") };
    assert!(why.starts_with("label 'team' cannot be '-'"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_a_user_applied_before_its_root_stays_and_the_creation_fails() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(harness) = Harness::on(kubernetes).await else { return };
    let services = harness.namespace.api::<Service>();
    let of_user: Service = serde_json::from_value(json!({
        "metadata": {"name": "fred", "labels": {"oshinko-cluster": "fred", "oshinko-type": "master"}},
        "spec": {"ports": [{"port": 7077}]},
    }))
    .unwrap();
    let before = services.create(&PostParams::default(), &of_user).await.unwrap();
    let action = harness.try_create(&harness.cluster_request(Framework::Spark, 1)).await.unwrap();
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.contains("choose another name"), "{}", action.status_reason);
    let after = services.get("fred").await.unwrap().metadata;
    assert_eq!((after.uid, after.deletion_timestamp), (before.metadata.uid, None));
}
