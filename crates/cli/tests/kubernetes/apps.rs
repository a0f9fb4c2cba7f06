//! Apps on Kubernetes: rules of deletion by the command line, and clusters that end without anyone asking.

use std::process::Output;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use muster_testkit::eventually;
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::harness::{Harness, said};
use crate::server::{PATIENCE, Server};

/// Pods with this label are left alone by the testbed: the tests are their kubelet.
const DRIVER: (&str, &str) = ("muster.test/driver", "true");

/// So that tests do not wait long.
pub(crate) const SHORT_GRACE: &[&str] = &["--app-grace", "1"];

pub(crate) fn labels(name: &str) -> Value {
    json!({"app": name, DRIVER.0: DRIVER.1})
}

fn template(name: &str) -> Value {
    let container = json!({"name": "driver", "image": "example.test/driver:1"});
    json!({"metadata": {"labels": labels(name)}, "spec": {"containers": [container]}})
}

fn object<K: DeserializeOwned>(name: &str, spec: &Value) -> K {
    let object = json!({"metadata": {"name": name}, "spec": spec});
    serde_json::from_value(object).expect("an object")
}

fn set(name: &str, replicas: u32) -> Value {
    json!({"replicas": replicas, "selector": {"matchLabels": labels(name)}, "template": template(name)})
}

pub(crate) fn stateful_set(name: &str) -> StatefulSet {
    let mut spec = set(name, 1);
    spec["serviceName"] = name.into();
    object(name, &spec)
}

pub(crate) struct Bed {
    pub(crate) harness: Harness,
    pub(crate) server: Server,
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

impl Bed {
    pub(crate) async fn open() -> Option<Self> {
        let harness = Harness::with(None).await?;
        let server = harness.server(SHORT_GRACE).await;
        Some(Self { harness, server })
    }

    pub(crate) fn muster(&self, arguments: &[&str]) -> Output {
        self.harness.muster(&self.server, arguments)
    }

    /// Runs a command that ends so and says this.
    fn ends(&self, arguments: &[&str], code: i32, words: &str) {
        let output = self.muster(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(words), "{arguments:?} says '{words}': {}", text(&output));
    }

    /// A Spark cluster without workers, which needs no operator.
    pub(crate) fn create(&self, name: &str, more: &[&str]) -> Output {
        let own = ["create", name, "--framework", "spark", "--workers", "0", "--provider", "kubernetes"];
        self.muster(&[&own, more].concat())
    }

    pub(crate) async fn deployment(&self, name: &str) -> String {
        let deployments = self.harness.namespace.api::<Deployment>();
        deployments.create(&PostParams::default(), &object(name, &set(name, 1))).await.expect("a Deployment");
        self.replica_set(name, None).await
    }

    /// The name of a Deployment's ReplicaSet, other than this one, once it has a pod.
    async fn replica_set(&self, deployment: &str, other_than: Option<&str>) -> String {
        let sets = self.harness.namespace.api::<ReplicaSet>();
        let chosen = ListParams::default().labels(&format!("app={deployment}"));
        eventually("a ReplicaSet", PATIENCE, async || {
            let found = sets.list(&chosen).await.expect("a list").items;
            let name = |set: ReplicaSet| set.metadata.name.expect("a name");
            let is_other = |name: &String| Some(name.as_str()) != other_than;
            found.into_iter().map(name).find(is_other).ok_or("there is none yet")
        })
        .await
    }

    pub(crate) async fn pod_of(&self, app: &str) -> String {
        let pods = self.harness.namespace.api::<Pod>();
        let chosen = ListParams::default().labels(&format!("app={app}"));
        eventually("a pod", PATIENCE, async || {
            let found = pods.list(&chosen).await.expect("a list").items;
            let alive = found.into_iter().find(|pod| pod.metadata.deletion_timestamp.is_none());
            alive.and_then(|pod| pod.metadata.name).ok_or("there is none yet")
        })
        .await
    }

    /// Ends all driver pods at once, as a kubelet does in the end.
    pub(crate) async fn end_pods(&self) {
        self.end_pods_with(&format!("{}={}", DRIVER.0, DRIVER.1)).await;
    }

    /// Ends the pods of an app.
    pub(crate) async fn end_pods_of(&self, app: &str) {
        self.end_pods_with(&format!("app={app}")).await;
    }

    async fn end_pods_with(&self, labels: &str) {
        let pods = self.harness.namespace.api::<Pod>();
        let chosen = ListParams::default().labels(labels);
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        pods.delete_collection(&now, &chosen).await.expect("pods can be deleted");
    }

    pub(crate) async fn is_gone(&self, cluster: &str) {
        eventually(&format!("cluster {cluster} is gone"), PATIENCE, async || {
            let got = self.muster(&["get", cluster]);
            if got.status.code() == Some(4) { Ok(()) } else { Err(text(&got)) }
        })
        .await;
    }

    pub(crate) fn is_there(&self, cluster: &str) {
        let shown = said(&self.muster(&["get", cluster]));
        assert!(!shown.contains("DELETING"), "{shown}");
    }

    pub(crate) async fn label_of(&self, set: &str) -> Option<String> {
        let found = self.harness.namespace.api::<ReplicaSet>().get(set).await.expect("a ReplicaSet");
        found.metadata.labels.unwrap_or_default().remove("uses-oshinko-cluster")
    }

    pub(crate) async fn close(self) {
        let all = DeleteParams::background();
        let (chosen, namespace) = (ListParams::default(), &self.harness.namespace);
        let _ = namespace.api::<Deployment>().delete_collection(&all, &chosen).await;
        let _ = namespace.api::<ReplicaSet>().delete_collection(&all, &chosen).await;
        let _ = namespace.api::<StatefulSet>().delete_collection(&all, &chosen).await;
        let _ = namespace.api::<Job>().delete_collection(&all, &chosen).await;
        self.end_pods().await;
    }
}

#[tokio::test]
async fn the_rules_of_deletion_hold_on_the_command_line() {
    let Some(bed) = Bed::open().await else { return };
    let set = bed.deployment("bob").await;
    let pod = bed.pod_of("bob").await;
    said(&bed.create("shared", &[]));
    let made = bed.create("own", &["--app", "bob", "--ephemeral"]);
    assert!(text(&made).contains("ephemeral cluster own created"), "{}", text(&made));
    bed.ends(&["create", "own", "--framework", "spark"], 3, "cluster 'own' already exists");
    bed.ends(&["delete", "none"], 4, "no such cluster 'none'");
    assert_eq!(bed.label_of(&set).await.as_deref(), Some("own"));
    let master = bed.harness.namespace.api::<Deployment>().get("own-m").await.expect("the master");
    let metadata = master.metadata;
    assert_eq!(metadata.labels.unwrap_or_default().get("ephemeral"), Some(&set));
    let owner = metadata.owner_references.unwrap_or_default().pop().expect("an owner");
    assert_eq!((owner.kind.as_str(), &owner.name), ("ReplicaSet", &set));

    let completed = ["--app-status", "completed"];
    let terminated = ["--app-status", "terminated"];
    bed.ends(&["delete", "own", "--app", "bob"], 2, "Both --app and --app-status must be set");
    bed.ends(&["delete", "own", "--app-status", "completed"], 2, "Both --app and --app-status must be set");
    bed.ends(
        &["delete", "own", "--app", "bob", "--app-status", "gone"],
        2,
        "INVALID app-status value, only completed|terminated allowed",
    );
    bed.ends(
        &[&["delete", "shared", "--app", "bob"][..], &completed].concat(),
        3,
        "cluster is not ephemeral",
    );
    let other = bed.deployment("ann").await;
    bed.ends(
        &[&["delete", "own", "--app", &other][..], &completed].concat(),
        3,
        "cluster is not linked to app",
    );
    bed.ends(&[&["delete", "own", "--app", &set][..], &terminated].concat(), 3, "driver replica count > 0");
    bed.ends(&[&["delete", "own", "--app", &pod][..], &terminated].concat(), 3, "cluster not deleted 'own'");
    bed.scale("bob", 2).await;
    bed.ends(&[&["delete", "own", "--app", &set][..], &completed].concat(), 3, "(or > 1 for completed app)");
    bed.scale("bob", 1).await;
    let shown = said(&bed.muster(&["get", "--app", "deploy/bob"]));
    assert!(shown.contains("own") && shown.contains(&set) && !shown.contains("shared"), "{shown}");
    bed.ends(&["get", "--app", "deploy/ann"], 4, "no cluster found for app 'deploy/ann'");
    said(&bed.muster(&[&["delete", "own", "--app", "deploy/bob"][..], &completed].concat()));
    bed.is_gone("own").await;
    eventually("the label is gone", PATIENCE, async || match bed.label_of(&set).await {
        None => Ok(()),
        Some(label) => Err(label),
    })
    .await;
    bed.is_there("shared");
    bed.close().await;
}

impl Bed {
    pub(crate) async fn scale(&self, deployment: &str, replicas: u32) {
        let patch = json!({"spec": {"replicas": replicas}});
        let deployments = self.harness.namespace.api::<Deployment>();
        let patched = deployments.patch(deployment, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.expect("it can be scaled");
        let sets = self.harness.namespace.api::<ReplicaSet>();
        let chosen = ListParams::default().labels(&format!("app={deployment}"));
        eventually("the ReplicaSet is scaled", PATIENCE, async || {
            let found = sets.list(&chosen).await.expect("a list").items;
            let wanted: Vec<_> = found.into_iter().filter_map(|set| set.spec?.replicas).collect();
            if wanted.iter().sum::<i32>() == i32::try_from(replicas).expect("a number") {
                Ok(())
            } else {
                Err(format!("{wanted:?}"))
            }
        })
        .await;
    }
}

#[tokio::test]
async fn an_app_that_is_not_there_makes_a_shared_cluster_and_a_name_of_several_is_refused() {
    let Some(bed) = Bed::open().await else { return };
    let made = bed.create("fred", &["--app", "no-such", "--ephemeral", "-o", "json"]);
    let shown: Value = serde_json::from_str(&said(&made)).expect("JSON");
    assert_eq!(shown.get("ephemeral"), None, "{shown}");
    let warning = "Could not create an ephemeral cluster, created a shared cluster instead";
    assert!(String::from_utf8_lossy(&made.stderr).contains(warning), "{}", text(&made));
    bed.ends(
        &["create", "x", "--ephemeral", "--framework", "spark"],
        2,
        "An app value must be supplied if ephemeral is used",
    );
    bed.deployment("bob").await;
    let job = json!({"template": {"metadata": {"labels": labels("bob-job")}, "spec": {"restartPolicy": "Never", "containers": [{"name": "d", "image": "i"}]}}});
    let jobs = bed.harness.namespace.api::<Job>();
    jobs.create(&PostParams::default(), &object("bob", &job)).await.expect("a Job");
    let ambiguous = bed.create("y", &["--app", "bob", "--ephemeral"]);
    assert_eq!(ambiguous.status.code(), Some(2), "{}", text(&ambiguous));
    assert!(
        text(&ambiguous).contains("ReplicaSet/bob-") && text(&ambiguous).contains("Job/bob"),
        "{}",
        text(&ambiguous)
    );
    bed.close().await;
}

/// Kinds of apps, each with how it is deleted.
#[rstest]
#[case::deployment_in_background("Deployment", PropagationPolicy::Background)]
#[case::deployment_in_foreground("Deployment", PropagationPolicy::Foreground)]
#[case::stateful_set("StatefulSet", PropagationPolicy::Background)]
#[case::job("Job", PropagationPolicy::Background)]
#[case::pod("Pod", PropagationPolicy::Background)]
#[tokio::test]
async fn a_deleted_app_ends_its_cluster_without_anyone_asking(
    #[case] kind: &str,
    #[case] propagation: PropagationPolicy,
) {
    let Some(bed) = Bed::open().await else { return };
    let namespace = &bed.harness.namespace;
    let new = PostParams::default();
    match kind {
        "Deployment" => drop(bed.deployment("bob").await),
        "StatefulSet" => {
            let made = namespace.api::<StatefulSet>().create(&new, &stateful_set("bob")).await;
            drop(made.expect("a StatefulSet"));
        }
        "Job" => {
            let mut pod = template("bob");
            pod["spec"]["restartPolicy"] = "Never".into();
            drop(
                namespace
                    .api::<Job>()
                    .create(&new, &object("bob", &json!({"template": pod})))
                    .await
                    .expect("a Job"),
            );
        }
        _ => {
            let pod = json!({"metadata": {"name": "bob", "labels": labels("bob")}, "spec": template("bob")["spec"]});
            let pod: Pod = serde_json::from_value(pod).expect("a pod");
            drop(namespace.api::<Pod>().create(&new, &pod).await.expect("a pod"));
        }
    }
    said(&bed.create("own", &["--app", &format!("{kind}/bob"), "--ephemeral"]));
    bed.is_there("own");
    let delete = DeleteParams {
        propagation_policy: Some(propagation),
        grace_period_seconds: (kind == "Pod").then_some(0),
        ..DeleteParams::default()
    };
    match kind {
        "Deployment" => drop(namespace.api::<Deployment>().delete("bob", &delete).await.expect("deleted")),
        "StatefulSet" => drop(namespace.api::<StatefulSet>().delete("bob", &delete).await.expect("deleted")),
        "Job" => drop(namespace.api::<Job>().delete("bob", &delete).await.expect("deleted")),
        _ => drop(namespace.api::<Pod>().delete("bob", &delete).await.expect("deleted")),
    }
    bed.end_pods().await;
    bed.is_gone("own").await;
    let events = said(&bed.muster(&["events", "own"]));
    assert!(events.contains("DeletedWithApp"), "{events}");
    bed.close().await;
}

#[tokio::test]
async fn what_is_not_the_end_of_an_app_leaves_its_cluster() {
    let Some(bed) = Bed::open().await else { return };
    let set = bed.deployment("bob").await;
    said(&bed.create("own", &["--app", "bob", "--ephemeral"]));
    let first = bed.pod_of("bob").await;
    // A pod that is deleted is replaced.
    bed.end_pods().await;
    let next = eventually("another pod", PATIENCE, async || {
        let pod = bed.pod_of("bob").await;
        if pod == first { Err(pod) } else { Ok(pod) }
    })
    .await;
    let shown = said(&bed.muster(&["get", "--app", &next, "-o", "name"]));
    assert!(shown.contains("own"), "the next driver finds the cluster: {shown}");
    // A label that is removed by hand is only a label.
    let without = json!({"metadata": {"labels": {"uses-oshinko-cluster": null}}});
    let sets = bed.harness.namespace.api::<ReplicaSet>();
    sets.patch(&set, &PatchParams::default(), &Patch::Merge(&without)).await.expect("the label is removed");
    // A Deployment that is deleted without its ReplicaSet goes on in it.
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    bed.harness.namespace.api::<Deployment>().delete("bob", &orphan).await.expect("deleted");
    eventually("the Deployment is gone", PATIENCE, async || {
        let found = bed.harness.namespace.api::<Deployment>().get_opt("bob").await.expect("an answer");
        if found.is_none() { Ok(()) } else { Err("it is there") }
    })
    .await;
    bed.ends(&["delete", "own", "--app", &set, "--app-status", "terminated"], 3, "driver replica count > 0");
    bed.is_there("own");
    // The ReplicaSet alone is the app now.
    sets.delete(&set, &DeleteParams::background()).await.expect("deleted");
    bed.end_pods().await;
    bed.is_gone("own").await;
    bed.close().await;
}

#[tokio::test]
async fn a_rollout_ends_the_cluster_of_the_one_before_unless_it_belongs_to_the_deployment() {
    let Some(bed) = Bed::open().await else { return };
    let old = bed.deployment("bob").await;
    said(&bed.create("own", &["--app", "bob", "--ephemeral"]));
    said(&bed.create("lasting", &["--app", "bob", "--ephemeral", "--across-rollouts"]));
    let other = json!({"spec": {"template": {"metadata": {"annotations": {"rollout": "2"}}}}});
    let deployments = bed.harness.namespace.api::<Deployment>();
    deployments.patch("bob", &PatchParams::default(), &Patch::Merge(&other)).await.expect("a rollout");
    let new = bed.replica_set("bob", Some(&old)).await;
    // The new pod has to be ready before the old one goes.
    let pods = bed.harness.namespace.api::<Pod>();
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    eventually("the rollout is complete", PATIENCE, async || {
        for pod in pods.list(&ListParams::default().labels("app=bob")).await.expect("a list").items {
            let name = pod.metadata.name.expect("a name");
            if pod.metadata.deletion_timestamp.is_some() {
                let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
                let _ = pods.delete(&name, &now).await;
            } else {
                let _ = pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&ready)).await;
            }
        }
        let set = bed.harness.namespace.api::<ReplicaSet>().get(&old).await.expect("a ReplicaSet");
        let replicas = set.spec.and_then(|spec| spec.replicas);
        let pods = pods.list(&ListParams::default().labels("app=bob")).await.expect("a list").items.len();
        if (replicas, pods) == (Some(0), 1) { Ok(()) } else { Err(format!("{replicas:?} {pods}")) }
    })
    .await;
    bed.is_gone("own").await;
    bed.is_there("lasting");
    bed.ends(
        &["delete", "lasting", "--app", &new, "--app-status", "terminated"],
        3,
        "driver replica count > 0",
    );
    said(&bed.muster(&["delete", "lasting", "--app", &new, "--app-status", "completed"]));
    bed.close().await;
}

#[tokio::test]
async fn a_job_keeps_its_cluster_until_it_is_complete() {
    let Some(bed) = Bed::open().await else { return };
    let mut pod = template("bob");
    pod["spec"]["restartPolicy"] = "Never".into();
    let jobs = bed.harness.namespace.api::<Job>();
    jobs.create(&PostParams::default(), &object("bob", &json!({"template": pod, "backoffLimit": 4})))
        .await
        .expect("a Job");
    said(&bed.create("own", &["--app", "job/bob", "--ephemeral"]));
    let pods = bed.harness.namespace.api::<Pod>();
    for _ in 0..2 {
        let driver = bed.pod_of("bob").await;
        let failed = json!({"status": {"phase": "Failed"}});
        bed.ends(
            &["delete", "own", "--app", &driver, "--app-status", "completed", "--exit-code", "7"],
            3,
            "job is not finished",
        );
        pods.patch_status(&driver, &PatchParams::default(), &Patch::Merge(&failed)).await.expect("it failed");
        eventually("another pod", PATIENCE, async || {
            let running =
                |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Failed");
            let found = pods.list(&ListParams::default().labels("app=bob")).await.expect("a list").items;
            if found.iter().any(running) { Ok(()) } else { Err("there is none yet") }
        })
        .await;
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let _ = pods.delete(&driver, &now).await;
    }
    bed.is_there("own");
    let driver = bed.pod_of("bob").await;
    said(&bed.muster(&["delete", "own", "--app", &driver, "--app-status", "completed", "--exit-code", "0"]));
    bed.is_gone("own").await;
    bed.close().await;
}

#[tokio::test]
async fn apps_are_attached_to_shared_clusters_and_listed() {
    let Some(bed) = Bed::open().await else { return };
    let (bob, ann) = (bed.deployment("bob").await, bed.deployment("ann").await);
    said(&bed.create("shared", &[]));
    said(&bed.create("own", &["--app", "bob", "--ephemeral"]));
    for _ in 0..2 {
        said(&bed.muster(&["app", "attach", "deploy/ann", "--cluster", "shared"]));
    }
    bed.ends(&["app", "attach", "deploy/ann", "--cluster", "own"], 3, "belongs to app");
    bed.ends(&["app", "detach", "deploy/bob", "--cluster", "own"], 3, "cannot leave it");
    said(&bed.muster(&["app", "attach", "deploy/bob", "--cluster", "shared"]));
    let list = said(&bed.muster(&["app", "list", "--cluster", "shared"]));
    assert!(list.contains(&bob) && list.contains(&ann), "{list}");
    let all = said(&bed.muster(&["get", "--app", "deploy/bob", "-o", "name"]));
    assert!(all.contains("shared") && all.contains("own"), "{all}");
    assert_eq!(bed.label_of(&ann).await.as_deref(), Some("shared"));
    assert_eq!(bed.label_of(&bob).await.as_deref(), Some("own"), "the one that discovery uses");
    said(&bed.muster(&["app", "detach", "deploy/ann", "--cluster", "shared"]));
    assert_eq!(bed.label_of(&ann).await, None);
    let old = said(&bed.muster(&["get", "-d"]));
    assert!(old.lines().any(|line| line.starts_with("shared") && line.ends_with("<shared>")), "{old}");
    bed.close().await;
}

#[tokio::test]
async fn the_label_of_the_object_wins_over_the_row() {
    let Some(bed) = Bed::open().await else { return };
    bed.deployment("bob").await;
    said(&bed.create("own", &["--app", "bob", "--ephemeral"]));
    let masters = bed.harness.namespace.api::<Deployment>();
    let relabel = async |value: Value| {
        let patch = json!({"metadata": {"labels": {"ephemeral": value}}});
        masters.patch("own-m", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("it is labelled");
    };
    let shows = async |column: &str| {
        eventually(&format!("EPHEMERAL is {column}"), PATIENCE, async || {
            let shown = said(&bed.muster(&["get", "own"]));
            if shown.contains(column) { Ok(()) } else { Err(shown) }
        })
        .await;
    };
    relabel("other-1".into()).await;
    shows("other-1").await;
    let delete = ["delete", "own", "--app", "deploy/bob", "--app-status", "completed"];
    bed.ends(&delete, 3, "cluster is not linked to app");
    relabel(Value::Null).await;
    shows("<shared>").await;
    bed.ends(&delete, 3, "cluster is not ephemeral");
    said(&bed.muster(&["delete", "own"]));
    bed.close().await;
}
