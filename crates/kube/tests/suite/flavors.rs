//! Flavors: their discovery, and the effects of their operators, autoscalers and recipes on objects.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::{ClusterStatus, Framework, WorkerGroup};
use muster_engine::SubmitError;
use muster_testkit::{Operator, eventually};
use rstest::rstest;
use serde_json::{Map, Value, json};

use crate::discovery::plain_ray;
use crate::harness::{Harness, PATIENCE, exactly};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_installed_later_is_found_and_a_removed_one_is_missing() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    let Some(harness) = Harness::on((*own).clone()).await else { return };
    let refused = harness.try_create(&harness.cluster_request(Framework::Ray, 0)).await;
    assert!(matches!(refused, Err(SubmitError::Missing(_))), "{refused:?}");

    let Some(_) = own.operator(Operator::KubeRay).await else { return };
    let action = eventually("an operator that was started later", PATIENCE, async || {
        match harness.try_create(&harness.cluster_request(Framework::Ray, 0)).await {
            Ok(action) => Ok(action),
            Err(error @ SubmitError::Missing(_)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    });
    let action = harness.ended(action.await).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);

    // The deletion of a definition deletes its clusters too.
    let definitions: Api<CustomResourceDefinition> = Api::all(own.client());
    definitions.delete("rayclusters.ray.io", &DeleteParams::default()).await.unwrap();
    let id = action.cluster_id.unwrap();
    let gone = async || Some(harness.cluster(id).await).filter(|row| row.deleted_at.is_some());
    harness.until("the row is deleted", gone).await;
    // The API server removes the kind after its objects.
    eventually("a refusal because the operator is gone", PATIENCE, async || {
        match harness.try_create(&harness.cluster_request(Framework::Ray, 0)).await {
            Err(SubmitError::Missing(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_bounds_of_an_autoscaled_group_can_be_changed() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let mut theirs = plain_ray("theirs", 2);
    theirs.data["spec"]["enableInTreeAutoscaling"] = json!(true);
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    objects.create(&PostParams::default(), &theirs).await.unwrap();
    let found = harness.discovered("theirs").await;
    let active =
        async || Some(harness.cluster(found.id).await).filter(|row| row.status == ClusterStatus::Active);
    let found = harness.until("active", active).await;

    let refused = harness.try_submit(ActionKind::ClusterResize, &found, exactly(4)).await.unwrap_err();
    let words = "group 'g' is scaled by its autoscaler: change its bounds, not its size";
    assert_eq!(refused.to_string(), words);

    let group = WorkerGroup { min: 1, max: Some(4), ..found.groups[0].clone() };
    let action = harness.done(ActionKind::ClusterUpdate, &found, json!({"groups": [group]})).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let written = objects.get("theirs").await.unwrap().data["spec"]["workerGroupSpecs"][0].clone();
    let numbers = (&written["replicas"], &written["minReplicas"], &written["maxReplicas"]);
    assert_eq!(numbers, (&json!(2), &json!(1), &json!(4)));
}

#[rstest]
#[case::kuberay(Framework::Ray, Some(Operator::KubeRay))]
#[case::dask_operator(Framework::Dask, Some(Operator::Dask))]
#[case::native(Framework::Spark, None)]
#[tokio::test(flavor = "multi_thread")]
async fn pod_settings_of_groups_reach_their_pods(
    #[case] framework: Framework,
    #[case] operator: Option<Operator>,
) {
    let harness = match operator {
        Some(operator) => Harness::with(operator).await,
        None => match muster_testkit::kubernetes().await {
            Some(kubernetes) => Harness::on(kubernetes).await,
            None => None,
        },
    };
    let Some(harness) = harness else { return };
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let accounts: Api<ServiceAccount> =
        Api::namespaced(harness.kubernetes.client(), harness.namespace.name());
    accounts.create(&PostParams::default(), &serde_json::from_value(account).unwrap()).await.unwrap();
    let (cluster, mut profile) = harness.cluster_request(framework, 1);
    let mut pod = json!({
        "service_account": "robot",
        "image_pull_secret": "key",
        "volumes": [
            {"name": "scratch", "path": "/scratch", "of": {"empty_dir": {"limit": "1Gi"}}},
            {"name": "home", "path": "/home", "read_only": true, "of": {"config_map": {"name": "homes"}}},
        ],
    });
    if framework != Framework::Dask {
        pod["labels"] = json!({"cost": "red"});
    }
    let properties = json!({"environment": "TESTING", "head": {"pod": {"service_type": "NodePort"}}, "worker": {"pod": pod}});
    profile.properties = properties.as_object().unwrap().clone();
    let created = harness.try_create(&(cluster, profile)).await.unwrap();
    let created = harness.ended(created).await;
    assert_eq!(created.status_reason, "Cluster creation succeeded.");
    let pods: Api<Pod> = Api::namespaced(harness.kubernetes.client(), harness.namespace.name());
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    let runs_as_robot = |pod: &&Pod| {
        pod.spec.as_ref().is_some_and(|spec| spec.service_account_name.as_deref() == Some("robot"))
    };
    let workers: Vec<&Pod> = pods.iter().filter(runs_as_robot).collect();
    assert_eq!((pods.len(), workers.len()), (2, 1));
    let worker = serde_json::to_value(workers[0]).unwrap();
    assert_eq!(worker["spec"]["imagePullSecrets"], json!([{"name": "key"}]));
    let named = |list: &Value, name: &str| {
        list.as_array().unwrap().iter().find(|thing| thing["name"] == name).cloned().unwrap_or_default()
    };
    assert_eq!(named(&worker["spec"]["volumes"], "scratch")["emptyDir"], json!({"sizeLimit": "1Gi"}));
    let mounts = &worker["spec"]["containers"][0]["volumeMounts"];
    assert_eq!(named(mounts, "home"), json!({"name": "home", "mountPath": "/home", "readOnly": true}));
    if framework != Framework::Dask {
        assert_eq!(worker["metadata"]["labels"]["cost"], "red");
    }
    let services: Api<Service> = Api::namespaced(harness.kubernetes.client(), harness.namespace.name());
    let services = services.list(&ListParams::default()).await.unwrap().items;
    let of_type = |service: &Service| service.spec.as_ref().and_then(|spec| spec.type_.clone());
    assert!(services.iter().any(|service| of_type(service).as_deref() == Some("NodePort")), "{services:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_objects_of_a_spark_cluster_are_missing_and_recreated_on_request() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(harness) = Harness::on(kubernetes).await else { return };
    let cluster = harness.created(Framework::Spark, 1).await;
    let (services, deployments) = (harness.namespace.api::<Service>(), harness.namespace.api::<Deployment>());
    let is = async |status: ClusterStatus, words: &str| {
        let is = async || {
            let row = harness.cluster(cluster.id).await;
            (row.status == status && row.status_reason.contains(words)).then_some(row)
        };
        harness.until(words, is).await
    };

    services.delete("fred", &DeleteParams::default()).await.unwrap();
    let row = is(ClusterStatus::Critical, "Service 'fred' (its address) was deleted").await;
    assert!(
        row.status_reason.ends_with("recover, restart or scale the cluster to recreate it"),
        "{}",
        row.status_reason
    );
    assert!(services.get_opt("fred").await.unwrap().is_none(), "it is not recreated without a request");
    let recovered = harness.done(ActionKind::ClusterRecover, &cluster, json!({})).await;
    assert_eq!(recovered.status, ActionStatus::Succeeded, "{}", recovered.status_reason);
    let owners = services.get("fred").await.unwrap().metadata.owner_references.unwrap();
    assert_eq!(owners[0].name, "fred-m", "it is deleted with its cluster");
    is(ClusterStatus::Active, "").await;

    let foreground = DeleteParams::foreground();
    deployments.delete("fred-w", &foreground).await.unwrap();
    services.delete("fred-ui", &DeleteParams::default()).await.unwrap();
    let missing = async || {
        let row = harness.cluster(cluster.id).await;
        let words = ["Deployment 'fred-w' (its workers)", "Service 'fred-ui' (its page)"];
        words.iter().all(|words| row.status_reason.contains(words)).then_some(row)
    };
    harness.until("both are reported as missing", missing).await;
    let scaled = harness.resized(&cluster, 3).await;
    assert_eq!(scaled.status, ActionStatus::Succeeded, "{}", scaled.status_reason);
    assert_eq!(harness.workers(cluster.id).await.len(), 3);
    assert!(services.get_opt("fred-ui").await.unwrap().is_some());
}

#[rstest]
#[case::image(json!({"image": "example.test/dask:2"}))]
#[case::variables(json!({"env": {"A": "1"}}))]
#[tokio::test(flavor = "multi_thread")]
async fn dask_workers_with_their_old_recipe_are_named_in_an_event(#[case] node: Value) {
    let Some(harness) = Harness::with(Operator::Dask).await else { return };
    let cluster = harness.created(Framework::Dask, 2).await;
    let deployments = harness.namespace.api::<Deployment>();
    let generations = async || {
        let all = deployments.list(&ListParams::default()).await.unwrap().items;
        all.into_iter().map(|made| (made.metadata.name, made.metadata.generation)).collect::<BTreeMap<_, _>>()
    };
    let before = generations().await;
    let spec = Map::from_iter([("node".to_owned(), node)]);
    let group = WorkerGroup { spec, ..cluster.groups[0].clone() };
    let updated = harness.done(ActionKind::ClusterUpdate, &cluster, json!({"groups": [group]})).await;
    assert_eq!(updated.status, ActionStatus::Succeeded, "{}", updated.status_reason);
    let events = harness.events(cluster.id, "RestartNeeded").await;
    assert_eq!(events.len(), 1, "{events:?}");
    for worker in harness.workers(cluster.id).await {
        assert!(events[0].message.contains(&worker.name), "{} in {}", worker.name, events[0].message);
    }
    assert_eq!(generations().await, before, "the Deployments have not changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requested_restart_replaces_old_workers_of_ray_and_keeps_the_head() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 2).await;
    let pods = harness.namespace.api::<Pod>();
    let of_type = async |kind: &str| {
        let chosen = ListParams::default().labels(&format!("ray.io/node-type={kind}"));
        let stays = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
        let found = pods.list(&chosen).await.unwrap().items.into_iter().filter(stays);
        let image = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone());
        found.map(|pod| (pod.metadata.uid.clone(), image(&pod))).collect::<BTreeMap<_, _>>()
    };
    let (head, workers) = (of_type("head").await, of_type("worker").await);
    let group = json!({"name": cluster.groups[0].name, "image": "example.test/ray:2"});
    let inputs = json!({"groups": [group], "restart": "workers"});
    let updated = harness.done(ActionKind::ClusterUpdate, &cluster, inputs).await;
    assert_eq!(updated.status, ActionStatus::Succeeded, "{}", updated.status_reason);
    let (same, new) = (of_type("head").await, of_type("worker").await);
    assert_eq!(same, head);
    assert!(new.len() == 2 && workers.keys().all(|uid| !new.contains_key(uid)), "{workers:?}, now {new:?}");
    assert!(new.values().all(|image| image.as_deref() == Some("example.test/ray:2")), "{new:?}");
    assert_eq!(harness.events(cluster.id, "RestartNeeded").await, []);
    assert_eq!(harness.events(cluster.id, "NodeLost").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_applies_the_recipe_of_a_ray_head() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    let before = objects.get("fred").await.unwrap().data["spec"].clone();
    let head =
        json!({"image": "example.test/ray:2", "shape": {"cpu": "2", "memory": "3Gi"}, "env": {"B": "2"}});
    let inputs = json!({"head": head, "env": {"keys": {"A": "1"}}});
    let updated = harness.done(ActionKind::ClusterUpdate, &cluster, inputs).await;
    assert_eq!(updated.status, ActionStatus::Succeeded, "{}", updated.status_reason);
    let after = objects.get("fred").await.unwrap().data["spec"].clone();
    let container = |part: &Value| part["template"]["spec"]["containers"][0].clone();
    let written = container(&after["headGroupSpec"]);
    assert_eq!(written["image"], "example.test/ray:2");
    let shape = json!({"cpu": "2", "memory": "3Gi"});
    assert_eq!(written["resources"], json!({"limits": shape, "requests": shape}));
    let has = |container: &Value, name: &str| {
        container["env"].as_array().is_some_and(|all| all.iter().any(|variable| variable["name"] == name))
    };
    assert!(["A", "B", "MY_POD_IP"].iter().all(|name| has(&written, name)), "{written}");
    let (worker, old) = (&after["workerGroupSpecs"][0], &before["workerGroupSpecs"][0]);
    assert!(has(&container(worker), "A") && !has(&container(worker), "B"), "{worker}");
    assert_eq!(
        (&container(worker)["image"], &worker["replicas"]),
        (&container(old)["image"], &old["replicas"])
    );
    let head = harness.head(cluster.id).await;
    let events = harness.events(cluster.id, "RestartNeeded").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].message.contains(&head.name), "{} in {}", head.name, events[0].message);

    let restarted = harness.submit(ActionKind::NodeRecover, &cluster, Some(head.id), json!({})).await;
    let restarted = harness.ended(restarted).await;
    assert_eq!(restarted.status, ActionStatus::Succeeded, "{}", restarted.status_reason);
    let pod = harness.namespace.api::<Pod>().get(&harness.head(cluster.id).await.name).await.unwrap();
    assert_eq!(pod.spec.unwrap().containers[0].image.as_deref(), Some("example.test/ray:2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn start_parameters_of_ray_are_removed_and_labels_changed_at_once() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    let group = &cluster.groups[0].name;
    let parameters = async || {
        let object = harness.objects(["ray.io", "v1", "RayCluster"]).get("fred").await.unwrap();
        let team = object.metadata.labels.unwrap_or_default().get("team").cloned();
        let spec = &object.data["spec"];
        let of_head = &spec["headGroupSpec"]["rayStartParams"];
        let of_workers = &spec["workerGroupSpecs"][0]["rayStartParams"];
        (of_head["num-cpus"].clone(), of_workers["num-cpus"].clone(), team)
    };
    let update = async |args: &[&str], team: &str| {
        let groups = json!([{"name": group, "args": args}]);
        let inputs = json!({"head": {"args": args}, "groups": groups, "labels": {"keys": {"team": team}}});
        let updated = harness.done(ActionKind::ClusterUpdate, &cluster, inputs).await;
        assert_eq!(updated.status, ActionStatus::Succeeded, "{}", updated.status_reason);
    };
    update(&["--num-cpus=1"], "a").await;
    assert_eq!(parameters().await, (json!("1"), json!("1"), Some("a".to_owned())));
    update(&[], "b").await;
    assert_eq!(parameters().await, (Value::Null, Value::Null, Some("b".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn additions_of_other_tools_to_a_container_stay_when_its_recipe_changes() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 1).await;
    let objects = harness.objects(["ray.io", "v1", "RayCluster"]);
    let secret =
        json!({"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}});
    let container = "/spec/headGroupSpec/template/spec/containers/0";
    let added = json!([
        {"op": "add", "path": format!("{container}/env/-"), "value": secret},
        {"op": "add", "path": format!("{container}/resources"), "value": {"limits": {"ephemeral-storage": "1Gi"}}},
    ]);
    let added = Patch::Json::<()>(serde_json::from_value(added).unwrap());
    objects.patch("fred", &PatchParams::default(), &added).await.unwrap();
    let inputs = json!({"head": {"shape": {"cpu": "2"}}, "env": {"keys": {"A": "1"}}});
    let updated = harness.done(ActionKind::ClusterUpdate, &cluster, inputs).await;
    assert_eq!(updated.status, ActionStatus::Succeeded, "{}", updated.status_reason);
    let object = objects.get("fred").await.unwrap().data;
    let container = object.pointer(container).unwrap();
    let variables = container["env"].as_array().unwrap();
    assert!(
        variables.contains(&secret) && variables.contains(&json!({"name": "A", "value": "1"})),
        "{container}"
    );
    let expected = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2", "ephemeral-storage": "1Gi"}});
    assert_eq!(container["resources"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spark_master_is_replaced_when_its_recipe_changes() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(harness) = Harness::on(kubernetes).await else { return };
    let cluster = harness.created(Framework::Spark, 1).await;
    let (head, workers) = (harness.head(cluster.id).await, harness.workers(cluster.id).await);
    let inputs = json!({"head": {"image": "example.test/spark:2", "env": {"A": "1"}}});
    let updated = harness.done(ActionKind::ClusterUpdate, &cluster, inputs).await;
    assert_eq!(updated.status, ActionStatus::Succeeded, "{}", updated.status_reason);
    let now = harness.head(cluster.id).await;
    assert_eq!(now.id, head.id);
    let pod = harness.namespace.api::<Pod>().get(&now.name).await.unwrap();
    let container = &pod.spec.unwrap().containers[0];
    assert_eq!(container.image.as_deref(), Some("example.test/spark:2"));
    assert!(container.env.iter().flatten().any(|variable| variable.name == "A"));
    let same: Vec<_> = harness.workers(cluster.id).await.into_iter().map(|node| node.physical_id).collect();
    assert_eq!(same, workers.into_iter().map(|node| node.physical_id).collect::<Vec<_>>());
    assert_eq!(harness.events(cluster.id, "RestartNeeded").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipe_that_an_operator_would_not_apply_is_refused() {
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    let cluster = harness.created(Framework::Ray, 0).await;
    let inputs = json!({"head": {"args": ["verbose"]}});
    let refused = harness.try_submit(ActionKind::ClusterUpdate, &cluster, inputs).await.unwrap_err();
    assert_eq!(refused.to_string(), "argument 'verbose' is not possible: write --name=value");
}
