//! Clusters that others make, change and delete.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use muster_core::action::ActionStatus;
use muster_core::cluster::{ClusterStatus, Framework};
use muster_testkit::Operator;
use serde_json::{Value, json};

use crate::fixture::{Fixture, object};

pub(crate) fn plain_ray(name: &str, workers: u32) -> DynamicObject {
    let container = |name: &str| json!({"name": name, "image": "rayproject/ray:2.46.0", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}});
    let template = |name: &str| json!({"spec": {"containers": [container(name)]}});
    let spec = json!({
        "rayVersion": "2.46.0",
        "headGroupSpec": {"rayStartParams": {}, "template": template("ray-head")},
        "workerGroupSpecs": [{"groupName": "g", "replicas": workers, "minReplicas": 0, "maxReplicas": 9,
            "rayStartParams": {}, "template": template("ray-worker")}],
    });
    let mut object = object(["ray.io", "v1", "RayCluster"], name, &spec);
    object.metadata.labels = Some([("ray.io/user".to_owned(), "bob".to_owned())].into());
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_others_made_has_a_row_and_follows_what_they_do_to_it() {
    let Some(house) = Fixture::with(Operator::KubeRay).await else { return };
    let objects = house.objects(["ray.io", "v1", "RayCluster"]);
    let made = objects.create(&PostParams::default(), &plain_ray("theirs", 1)).await.unwrap();

    let found = house.discovered("theirs").await;
    assert_eq!(found.id.to_string(), made.metadata.uid.unwrap());
    assert!(found.is_found());
    assert_eq!((found.framework, found.flavor.as_deref()), (Some(Framework::Ray), Some("kuberay")));
    assert_eq!((found.user.as_str(), found.project.as_str()), ("bob", house.namespace.name()));
    assert_eq!((found.groups[0].name.as_str(), found.groups[0].max), ("g", Some(9)));
    let active =
        async || Some(house.cluster(found.id).await).filter(|row| row.status == ClusterStatus::Active);
    let row = house.until("active", active).await;
    assert_eq!(house.nodes(row.id).await.len(), 2);

    // They scale it.
    let patch: Value = json!([{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 3}]);
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    objects.patch("theirs", &PatchParams::default(), &Patch::<()>::Json(patch)).await.unwrap();
    let grown = async || Some(house.workers(found.id).await).filter(|workers| workers.len() == 3);
    house.until("three workers", grown).await;
    assert_eq!(house.cluster(found.id).await.desired(), 3);
    let told = house.told(found.id, "ChangedElsewhere").await;
    assert_eq!(told[0].message, "group 'g' shall have 3 workers, not 1");

    // A user of ours scales it.
    let action = house.resized(&found, 2).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let spec = objects.get("theirs").await.unwrap().data["spec"].clone();
    assert_eq!(spec["workerGroupSpecs"][0]["replicas"], 2);
    assert_eq!(
        spec["headGroupSpec"],
        plain_ray("theirs", 1).data["spec"]["headGroupSpec"],
        "nothing else is touched"
    );

    // They delete it.
    objects.delete("theirs", &DeleteParams::default()).await.unwrap();
    let gone = async || Some(house.cluster(found.id).await).filter(|row| row.deleted_at.is_some());
    let row = house.until("history", gone).await;
    assert_eq!(row.status_reason, "it was deleted elsewhere");
    assert_eq!(house.told(found.id, "DeletedElsewhere").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_on_what_somebody_just_deleted_says_so() {
    let Some(house) = Fixture::with(Operator::KubeRay).await else { return };
    let cluster = house.created(Framework::Ray, 1).await;
    let objects = house.objects(["ray.io", "v1", "RayCluster"]);
    objects.delete("fred", &DeleteParams::default()).await.unwrap();
    let gone = async || Some(house.cluster(cluster.id).await).filter(|row| row.deleted_at.is_some());
    house.until("history", gone).await;
    let action = house.told(cluster.id, "DeletedElsewhere").await;
    assert_eq!(action.len(), 1);
}
