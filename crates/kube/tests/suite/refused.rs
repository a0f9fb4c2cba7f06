//! What is refused, and in which words.

use kube::api::PostParams;
use muster_core::action::ActionStatus;
use muster_core::cluster::{Cluster, Framework};
use muster_engine::SubmitError;
use muster_testkit::Operator;
use serde_json::json;

use crate::fixture::Fixture;

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_an_operator_that_is_not_there_says_which_one() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    let Some(house) = Fixture::on((*own).clone()).await else { return };
    let refused = house.try_create(&house.ask_for(Framework::Ray, 1)).await;
    let Err(SubmitError::Missing(missing)) = refused else { panic!("{refused:?}") };
    assert_eq!(
        missing.message,
        "ray clusters of flavor kuberay need the KubeRay operator (rayclusters.ray.io), and this Kubernetes does \
         not have it: install it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flavor_that_nobody_knows_is_refused_with_those_there_are() {
    let Some(house) = Fixture::with(Operator::KubeRay).await else { return };
    let (cluster, profile) = house.ask_for(Framework::Ray, 1);
    let cluster = Cluster { flavor: Some("rey".to_owned()), ..cluster };
    let refused = house.try_create(&(cluster, profile)).await;
    let Err(SubmitError::Missing(missing)) = refused else { panic!("{refused:?}") };
    assert!(
        missing.message.starts_with("there is no flavor 'rey' of ray: there is kuberay"),
        "{}",
        missing.message
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_others_have_is_not_taken_over() {
    let Some(house) = Fixture::with(Operator::KubeRay).await else { return };
    let objects = house.objects(["ray.io", "v1", "RayCluster"]);
    let theirs = super::discovery::plain_ray("fred", 0);
    objects.create(&PostParams::default(), &theirs).await.unwrap();
    let action = house.try_create(&house.ask_for(Framework::Ray, 1)).await;
    // Either the row of theirs is there already, or the object is in the way.
    if let Ok(action) = action {
        let action = house.ended(action).await;
        assert_eq!(action.status, ActionStatus::Failed);
        assert!(
            action.status_reason.contains("there is one already, which others made"),
            "{}",
            action.status_reason
        );
    }
    assert_eq!(objects.get("fred").await.unwrap().data["spec"]["workerGroupSpecs"][0]["replicas"], json!(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_not_served_is_named() {
    let Some(house) = Fixture::with(Operator::KubeRay).await else { return };
    let (cluster, profile) = house.ask_for(Framework::Ray, 1);
    let cluster = Cluster { namespace: "nowhere".to_owned(), ..cluster };
    let action = house.try_create(&(cluster, profile)).await.unwrap();
    let action = house.ended(action).await;
    let words = format!("namespace 'nowhere' is not served here: choose {}", house.namespace.name());
    assert!(action.status_reason.contains(&words), "{}", action.status_reason);
}
