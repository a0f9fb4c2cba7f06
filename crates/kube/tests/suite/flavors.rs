//! Which flavors are there, and whose word counts.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::{ClusterStatus, Framework, WorkerGroup};
use muster_engine::SubmitError;
use muster_testkit::Operator;
use serde_json::json;

use crate::discovery::plain_ray;
use crate::fixture::{Fixture, PATIENCE};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_comes_later_is_found_and_one_that_goes_is_missed() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    let Some(house) = Fixture::on((*own).clone()).await else { return };
    let refused = house.try_create(&house.ask_for(Framework::Ray, 0)).await;
    assert!(matches!(refused, Err(SubmitError::Missing(_))), "{refused:?}");

    let Some(_) = own.operator(Operator::KubeRay).await else { return };
    let action = loop {
        match house.try_create(&house.ask_for(Framework::Ray, 0)).await {
            Ok(action) => break action,
            Err(SubmitError::Missing(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    let action = house.ended(action).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);

    // With its kind a cluster goes, too.
    let definitions: Api<CustomResourceDefinition> = Api::all(own.client());
    definitions.delete("rayclusters.ray.io", &DeleteParams::default()).await.unwrap();
    let id = action.cluster_id.unwrap();
    let gone = async || Some(house.cluster(id).await).filter(|row| row.deleted_at.is_some());
    house.until("history", gone).await;
    // The kind goes after its objects.
    let missed = async {
        while !matches!(
            house.try_create(&house.ask_for(Framework::Ray, 0)).await,
            Err(SubmitError::Missing(_))
        ) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE.into(), missed).await.expect("it is missed");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_an_autoscaler_decides_only_its_bounds_are_written() {
    let Some(house) = Fixture::with(Operator::KubeRay).await else { return };
    let mut theirs = plain_ray("theirs", 2);
    theirs.data["spec"]["enableInTreeAutoscaling"] = json!(true);
    let objects = house.objects(["ray.io", "v1", "RayCluster"]);
    objects.create(&PostParams::default(), &theirs).await.unwrap();
    let found = house.discovered("theirs").await;
    let active =
        async || Some(house.cluster(found.id).await).filter(|row| row.status == ClusterStatus::Active);
    let found = house.until("active", active).await;

    let action = house.resized(&found, 4).await;
    assert_eq!(action.status, ActionStatus::Failed);
    let words = "group 'g' is scaled by its autoscaler: change its bounds, not its size";
    assert_eq!(action.status_reason, words);

    let group = WorkerGroup { min: 1, max: Some(4), ..found.groups[0].clone() };
    let action = house.done(ActionKind::ClusterUpdate, &found, json!({"groups": [group]})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let written = objects.get("theirs").await.unwrap().data["spec"]["workerGroupSpecs"][0].clone();
    let numbers = (&written["replicas"], &written["minReplicas"], &written["maxReplicas"]);
    assert_eq!(numbers, (&json!(2), &json!(1), &json!(4)));
}
