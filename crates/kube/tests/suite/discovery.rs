//! Clusters that users create, change and delete with other tools than Muster.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::{ClusterStatus, Framework};
use muster_core::principal::Owner;
use muster_core::recipe::NodeRecipe;
use muster_store::reads::ActionQuery;
use muster_testkit::Operator;
use serde_json::{Value, json};

use crate::harness::{Harness, object};

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
async fn an_external_cluster_has_a_row_that_follows_its_object() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    let made = objects.create(&PostParams::default(), &plain_ray("theirs", 1)).await.unwrap();

    let found = harness.discovered("theirs").await;
    assert_eq!(found.id.to_string(), made.metadata.uid.unwrap());
    assert!(found.is_external());
    assert_eq!((found.framework, found.flavor.as_deref()), (Some(Framework::Ray), Some("kuberay")));
    assert_eq!((found.user.as_str(), found.project.as_str()), ("bob", harness.namespace.name()));
    assert_eq!(found.owner, Owner::of_scheme("kuberay", "bob"));
    assert_eq!((found.groups[0].name.as_str(), found.groups[0].max), ("g", Some(9)));
    let active =
        async || Some(harness.cluster(found.id).await).filter(|row| row.status == ClusterStatus::Active);
    let row = harness.until("active", active).await;
    assert_eq!(harness.nodes(row.id).await.len(), 2);

    // Another tool scales it.
    let patch: Value = json!([{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 3}]);
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    objects.patch("theirs", &PatchParams::default(), &Patch::<()>::Json(patch)).await.unwrap();
    let grown = async || Some(harness.workers(found.id).await).filter(|workers| workers.len() == 3);
    harness.until("three workers", grown).await;
    assert_eq!(harness.cluster(found.id).await.desired(), 3);
    let changes = harness.events(found.id, "ChangedElsewhere").await;
    assert_eq!(changes[0].message, "desired size of group 'g' changed from 1 to 3");

    // Another tool gives its workers another image.
    let image = json!([{"op": "replace", "path": "/spec/workerGroupSpecs/0/template/spec/containers/0/image", "value": "mine:2"}]);
    let image: json_patch::Patch = serde_json::from_value(image).unwrap();
    objects.patch("theirs", &PatchParams::default(), &Patch::<()>::Json(image)).await.unwrap();
    let words = "image of group 'g' changed from rayproject/ray:2.46.0 to mine:2";
    let changed = async || {
        let changes = harness.events(found.id, "ChangedElsewhere").await;
        changes.into_iter().find(|event| event.message == words)
    };
    harness.until("an event about the image", changed).await;
    let row = harness.cluster(found.id).await;
    assert_eq!(NodeRecipe::stored_in(&row.groups[0]).image.as_deref(), Some("mine:2"));

    // It gets the label of another user, which the shown object has too.
    let labels = json!({"metadata": {"labels": {"ray.io/user": "eve", "team": "red"}}});
    objects.patch("theirs", &PatchParams::default(), &Patch::Merge(&labels)).await.unwrap();
    let given = async || Some(harness.cluster(found.id).await).filter(|row| row.user == "eve");
    let row = harness.until("eve is the user", given).await;
    assert_eq!(row.owner, Owner::of_scheme("kuberay", "eve"));
    assert_eq!(row.labels.get("team").map(String::as_str), Some("red"));
    // KubeRay reports that it is ready once every worker runs, which may be after all of the above.
    let ready = async || {
        let row = harness.cluster(found.id).await;
        Some(row).filter(|row| row.observed.reported_state.as_deref() == Some("ready"))
    };
    harness.until("reported as ready", ready).await;
    let shown = harness.shown(found.id).await;
    assert_eq!(shown["metadata"]["labels"]["ray.io/user"], "eve");
    assert_eq!(shown["spec"], objects.get("theirs").await.unwrap().data["spec"]);
    assert_eq!((&shown["status"]["state"], shown["metadata"].get("managedFields")), (&json!("ready"), None));
    let reported = objects.get("theirs").await.unwrap().data["status"]["endpoints"].clone();
    assert_eq!(shown["status"].get("endpoints").cloned().unwrap_or_default(), reported);

    // A user of Muster scales it.
    let action = harness.resized(&found, 2).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let spec = objects.get("theirs").await.unwrap().data["spec"].clone();
    assert_eq!(spec["workerGroupSpecs"][0]["replicas"], 2);
    let shown = harness.shown(found.id).await;
    assert_eq!(
        shown["spec"]["workerGroupSpecs"][0]["replicas"], 2,
        "the shown object has the acknowledged write"
    );
    assert_eq!(
        spec["headGroupSpec"],
        plain_ray("theirs", 1).data["spec"]["headGroupSpec"],
        "nothing else has changed"
    );

    // Another tool deletes it.
    objects.delete("theirs", &DeleteParams::default()).await.unwrap();
    let gone = async || Some(harness.cluster(found.id).await).filter(|row| row.deleted_at.is_some());
    let row = harness.until("the row is deleted", gone).await;
    assert_eq!(row.status_reason, "it was deleted elsewhere");
    assert_eq!(harness.events(found.id, "DeletedElsewhere").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_another_tool_deletes_has_an_event() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    objects.delete("fred", &DeleteParams::default()).await.unwrap();
    let gone = async || Some(harness.cluster(cluster.id).await).filter(|row| row.deleted_at.is_some());
    harness.until("the row is deleted", gone).await;
    assert_eq!(harness.events(cluster.id, "DeletedElsewhere").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_created_after_its_clusters_deletion_is_removed() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 0).await;
    let deleted = harness.done(ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(deleted.status, ActionStatus::Succeeded, "{}", deleted.status_reason);
    let history = harness.cluster(cluster.id).await;
    // An engine that was suspended before its request creates such an object.
    let mut late = plain_ray("fred", 0);
    let label = ("muster.dev/cluster".to_owned(), cluster.id.to_string());
    late.metadata.labels = Some([label].into());
    let made_as = format!("{}/fred", harness.namespace.name());
    late.metadata.annotations = Some([("muster.dev/made-as".to_owned(), made_as)].into());
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    objects.create(&PostParams::default(), &late).await.unwrap();
    let removed =
        async || Some(harness.events(cluster.id, "LeftoverRemoved").await).filter(|all| !all.is_empty());
    harness.until("an event about the removal", removed).await;
    assert!(objects.get_opt("fred").await.unwrap().is_none());
    let query = ActionQuery {
        cluster: Some(cluster.id),
        kinds: vec![ActionKind::ClusterDelete],
        ..ActionQuery::default()
    };
    let mut deletions = harness.fresh.store.actions(&query).await.unwrap().items;
    deletions.retain(|action| action.id != deleted.id);
    let [collection] = deletions.as_slice() else { panic!("one action removes it: {deletions:?}") };
    assert!(collection.collects_garbage() && collection.fence > deleted.fence, "{collection:?}");
    assert_eq!(harness.cluster(cluster.id).await, history, "the deleted row does not change");
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_of_users_are_written_to_the_object() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let mut new = harness.cluster_request(Framework::Ray, 0);
    new.0.labels = [("team".to_owned(), "blue".to_owned()), ("old".to_owned(), "yes".to_owned())].into();
    let created = harness.try_create(&new).await.unwrap();
    assert_eq!(harness.ended(created).await.status, ActionStatus::Succeeded);
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    let labels = async || objects.get("fred").await.unwrap().metadata.labels.unwrap();
    assert_eq!((labels().await["team"].as_str(), labels().await["old"].as_str()), ("blue", "yes"));
    let inputs = json!({"labels": {"team": "red"}});
    let updated = harness.done(ActionKind::ClusterUpdate, &new.0, inputs).await;
    assert_eq!(updated.status, ActionStatus::Succeeded, "{}", updated.status_reason);
    let now = labels().await;
    assert_eq!((now["team"].as_str(), now.get("old")), ("red", None));
    assert!(now.contains_key("ray.io/cluster-name"), "the flavor's own label stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_keeps_its_identity_when_a_user_removes_its_label() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    let body = json!({"metadata": {"labels": {"muster.dev/cluster": null}}});
    objects.patch("fred", &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
    let action = harness.resized(&cluster, 2).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let action = harness.done(ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert!(objects.get_opt("fred").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_cluster_has_that_status() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    let body = json!({"spec": {"suspend": true}});
    objects.patch("fred", &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
    let suspended =
        async || Some(harness.cluster(cluster.id).await).filter(|row| row.status == ClusterStatus::Suspended);
    harness.until("suspended", suspended).await;
    let body = json!({"spec": {"suspend": false}});
    objects.patch("fred", &PatchParams::default(), &Patch::Merge(body)).await.unwrap();
    let active =
        async || Some(harness.cluster(cluster.id).await).filter(|row| row.status == ClusterStatus::Active);
    harness.until("active", active).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_restored_from_a_copy_is_another_cluster() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    let mut copy = objects.get("fred").await.unwrap();
    objects.delete("fred", &DeleteParams::default()).await.unwrap();
    copy.metadata.uid = None;
    copy.metadata.resource_version = None;
    let restored = async || objects.create(&PostParams::default(), &copy).await.ok();
    let restored = harness.until("the copy is created", restored).await;

    let found = async || {
        let found = restored.metadata.uid.as_ref()?.parse().ok()?;
        harness.fresh.store.cluster(found).await.unwrap()
    };
    let found = harness.until("a row with an id of its own", found).await;
    assert_eq!(found.name, "fred");
    assert!(harness.cluster(cluster.id).await.deleted_at.is_some(), "the first cluster is deleted");
    let resized = harness.resized(&found, 2).await;
    assert_eq!(resized.status, ActionStatus::Succeeded, "{}", resized.status_reason);
    let deleted = harness.done(ActionKind::ClusterDelete, &found, json!({})).await;
    assert_eq!(deleted.status, ActionStatus::Succeeded, "{}", deleted.status_reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_with_separate_databases_change_the_same_cluster_in_turn() {
    let Some(one) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = one.created(Framework::Ray, 1).await;
    assert_eq!(one.resized(&cluster, 2).await.status, ActionStatus::Succeeded);
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let served = |_: &str| vec![one.namespace.name().to_owned()];
    let Some(other) = Harness::serving(kubernetes, served).await else { return };
    let found = other.discovered("fred").await;
    // Its fences are lower, and are not compared with those of the other database.
    let resized = other.resized(&found, 3).await;
    assert_eq!(resized.status, ActionStatus::Succeeded, "{}", resized.status_reason);
    let observed = async || Some(one.cluster(cluster.id).await).filter(|row| row.desired() == 3);
    one.until("the size in the first server's row", observed).await;
    let resized = one.resized(&cluster, 1).await;
    assert_eq!(resized.status, ActionStatus::Succeeded, "{}", resized.status_reason);
    let observed = async || Some(other.cluster(found.id).await).filter(|row| row.desired() == 1);
    other.until("the size in the second server's row", observed).await;
}
