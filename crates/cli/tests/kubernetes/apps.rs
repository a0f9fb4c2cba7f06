//! Apps on Kubernetes: the rules of deletion on the command line, and clusters that end with their app.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use muster_testkit::eventually;
use rstest::rstest;
use serde_json::{Value, json};

use crate::app_harness::{AppHarness, labels, object, stateful_set, template, text};
use crate::harness::output_of;
use crate::server::TIMEOUT;

#[tokio::test]
async fn the_rules_of_deletion_hold_on_the_command_line() {
    let Some(harness) = AppHarness::open().await else { return };
    let set = harness.deployment("bob").await;
    let pod = harness.pod_of("bob").await;
    output_of(&harness.create("shared", &[]));
    let made = harness.create("own", &["--app", "bob", "--ephemeral"]);
    assert!(text(&made).contains("ephemeral cluster own created"), "{}", text(&made));
    harness.assert_ends(&["create", "own", "--framework", "spark"], 3, "cluster 'own' already exists");
    harness.assert_ends(&["delete", "none"], 4, "no such cluster 'none'");
    assert_eq!(harness.label_of(&set).await.as_deref(), Some("own"));
    let master = harness.harness.namespace.api::<Deployment>().get("own-m").await.expect("the master");
    let metadata = master.metadata;
    assert_eq!(metadata.labels.unwrap_or_default().get("ephemeral"), Some(&set));
    let owner = metadata.owner_references.unwrap_or_default().pop().expect("an owner");
    assert_eq!((owner.kind.as_str(), &owner.name), ("ReplicaSet", &set));

    let completed = ["--app-status", "completed"];
    let terminated = ["--app-status", "terminated"];
    harness.assert_ends(&["delete", "own", "--app", "bob"], 2, "Both --app and --app-status must be set");
    harness.assert_ends(
        &["delete", "own", "--app-status", "completed"],
        2,
        "Both --app and --app-status must be set",
    );
    harness.assert_ends(
        &["delete", "own", "--app", "bob", "--app-status", "gone"],
        2,
        "INVALID app-status value, only completed|terminated allowed",
    );
    harness.assert_ends(
        &[&["delete", "shared", "--app", "bob"][..], &completed].concat(),
        3,
        "cluster is not ephemeral",
    );
    let other = harness.deployment("ann").await;
    harness.assert_ends(
        &[&["delete", "own", "--app", &other][..], &completed].concat(),
        3,
        "cluster is not linked to app",
    );
    harness.assert_ends(
        &[&["delete", "own", "--app", &set][..], &terminated].concat(),
        3,
        "driver replica count > 0",
    );
    harness.assert_ends(
        &[&["delete", "own", "--app", &pod][..], &terminated].concat(),
        3,
        "cluster not deleted 'own'",
    );
    harness.scale("bob", 2).await;
    harness.assert_ends(
        &[&["delete", "own", "--app", &set][..], &completed].concat(),
        3,
        "(or > 1 for completed app)",
    );
    harness.scale("bob", 1).await;
    let shown = output_of(&harness.muster(&["get", "--app", "deploy/bob"]));
    assert!(shown.contains("own") && shown.contains(&set) && !shown.contains("shared"), "{shown}");
    harness.assert_ends(&["get", "--app", "deploy/ann"], 4, "no cluster found for app 'deploy/ann'");
    output_of(&harness.muster(&[&["delete", "own", "--app", "deploy/bob"][..], &completed].concat()));
    harness.wait_until_deleted("own").await;
    eventually("the label is gone", TIMEOUT, async || match harness.label_of(&set).await {
        None => Ok(()),
        Some(label) => Err(label),
    })
    .await;
    harness.assert_exists("shared");
    harness.close().await;
}

#[tokio::test]
async fn an_unknown_app_makes_a_shared_cluster_and_an_ambiguous_name_is_refused() {
    let Some(harness) = AppHarness::open().await else { return };
    let made = harness.create("fred", &["--app", "no-such", "--ephemeral", "-o", "json"]);
    let shown: Value = serde_json::from_str(&output_of(&made)).expect("JSON");
    assert_eq!(shown.get("ephemeral"), None, "{shown}");
    let warning = "Could not create an ephemeral cluster, created a shared cluster instead";
    assert!(String::from_utf8_lossy(&made.stderr).contains(warning), "{}", text(&made));
    harness.assert_ends(
        &["create", "x", "--ephemeral", "--framework", "spark"],
        2,
        "An app value must be supplied if ephemeral is used",
    );
    harness.deployment("bob").await;
    let job = json!({"template": {"metadata": {"labels": labels("bob-job")}, "spec": {"restartPolicy": "Never", "containers": [{"name": "d", "image": "i"}]}}});
    let jobs = harness.harness.namespace.api::<Job>();
    jobs.create(&PostParams::default(), &object("bob", &job)).await.expect("a Job");
    let ambiguous = harness.create("y", &["--app", "bob", "--ephemeral"]);
    assert_eq!(ambiguous.status.code(), Some(2), "{}", text(&ambiguous));
    assert!(
        text(&ambiguous).contains("ReplicaSet/bob-") && text(&ambiguous).contains("Job/bob"),
        "{}",
        text(&ambiguous)
    );
    harness.close().await;
}

/// Kinds of apps, with the resource to delete.
#[rstest]
#[case::deployment_in_background("Deployment", PropagationPolicy::Background)]
#[case::deployment_in_foreground("Deployment", PropagationPolicy::Foreground)]
#[case::stateful_set("StatefulSet", PropagationPolicy::Background)]
#[case::job("Job", PropagationPolicy::Background)]
#[case::pod("Pod", PropagationPolicy::Background)]
#[tokio::test]
async fn a_deleted_app_ends_its_cluster(#[case] kind: &str, #[case] propagation: PropagationPolicy) {
    let Some(harness) = AppHarness::open().await else { return };
    let namespace = &harness.harness.namespace;
    let new = PostParams::default();
    match kind {
        "Deployment" => drop(harness.deployment("bob").await),
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
    output_of(&harness.create("own", &["--app", &format!("{kind}/bob"), "--ephemeral"]));
    harness.assert_exists("own");
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
    harness.end_pods().await;
    harness.wait_until_deleted("own").await;
    let events = output_of(&harness.muster(&["events", "own"]));
    assert!(events.contains("DeletedWithApp"), "{events}");
    // A driver that deletes it later succeeds; for another app the cluster is unknown.
    let delete = |cluster, app| ["delete", cluster, "--app", app, "--app-status", "terminated"];
    let app = format!("{kind}/bob");
    assert_eq!(output_of(&harness.muster(&delete("own", &app))), "cluster \"own\" deleted\n");
    harness.assert_ends(&delete("own", "ann"), 4, "no such cluster 'own'");
    harness.assert_ends(&delete("never", &app), 4, "no such cluster 'never'");
    harness.close().await;
}

#[tokio::test]
async fn events_that_do_not_end_an_app_leave_its_cluster() {
    let Some(harness) = AppHarness::open().await else { return };
    let set = harness.deployment("bob").await;
    output_of(&harness.create("own", &["--app", "bob", "--ephemeral"]));
    let first = harness.pod_of("bob").await;
    // A deleted pod is replaced.
    harness.end_pods().await;
    let next = eventually("another pod", TIMEOUT, async || {
        let pod = harness.pod_of("bob").await;
        if pod == first { Err(pod) } else { Ok(pod) }
    })
    .await;
    let shown = output_of(&harness.muster(&["get", "--app", &next, "-o", "name"]));
    assert!(shown.contains("own"), "the next driver finds the cluster: {shown}");
    // Removing the label by hand does not end the app.
    let without = json!({"metadata": {"labels": {"uses-oshinko-cluster": null}}});
    let sets = harness.harness.namespace.api::<ReplicaSet>();
    sets.patch(&set, &PatchParams::default(), &Patch::Merge(&without)).await.expect("the label is removed");
    // A Deployment deleted without its ReplicaSet lives on in it.
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    harness.harness.namespace.api::<Deployment>().delete("bob", &orphan).await.expect("deleted");
    eventually("the Deployment is gone", TIMEOUT, async || {
        let found = harness.harness.namespace.api::<Deployment>().get_opt("bob").await.expect("an answer");
        if found.is_none() { Ok(()) } else { Err("it is there") }
    })
    .await;
    harness.assert_ends(
        &["delete", "own", "--app", &set, "--app-status", "terminated"],
        3,
        "driver replica count > 0",
    );
    harness.assert_exists("own");
    // Now the ReplicaSet alone is the app.
    sets.delete(&set, &DeleteParams::background()).await.expect("deleted");
    harness.end_pods().await;
    harness.wait_until_deleted("own").await;
    harness.close().await;
}

#[tokio::test]
async fn a_rollout_ends_the_cluster_of_the_last_one_unless_it_belongs_to_the_deployment() {
    let Some(harness) = AppHarness::open().await else { return };
    let old = harness.deployment("bob").await;
    output_of(&harness.create("own", &["--app", "bob", "--ephemeral"]));
    output_of(&harness.create("lasting", &["--app", "bob", "--ephemeral", "--across-rollouts"]));
    let other = json!({"spec": {"template": {"metadata": {"annotations": {"rollout": "2"}}}}});
    let deployments = harness.harness.namespace.api::<Deployment>();
    deployments.patch("bob", &PatchParams::default(), &Patch::Merge(&other)).await.expect("a rollout");
    let new = harness.replica_set("bob", Some(&old)).await;
    // The new pod must be ready before the old one is removed.
    let pods = harness.harness.namespace.api::<Pod>();
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    eventually("the rollout is complete", TIMEOUT, async || {
        for pod in pods.list(&ListParams::default().labels("app=bob")).await.expect("a list").items {
            let name = pod.metadata.name.expect("a name");
            if pod.metadata.deletion_timestamp.is_some() {
                let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
                let _ = pods.delete(&name, &now).await;
            } else {
                let _ = pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&ready)).await;
            }
        }
        let set = harness.harness.namespace.api::<ReplicaSet>().get(&old).await.expect("a ReplicaSet");
        let replicas = set.spec.and_then(|spec| spec.replicas);
        let pods = pods.list(&ListParams::default().labels("app=bob")).await.expect("a list").items.len();
        if (replicas, pods) == (Some(0), 1) { Ok(()) } else { Err(format!("{replicas:?} {pods}")) }
    })
    .await;
    harness.wait_until_deleted("own").await;
    harness.assert_exists("lasting");
    harness.assert_ends(
        &["delete", "lasting", "--app", &new, "--app-status", "terminated"],
        3,
        "driver replica count > 0",
    );
    output_of(&harness.muster(&["delete", "lasting", "--app", &new, "--app-status", "completed"]));
    harness.close().await;
}

#[tokio::test]
async fn a_job_keeps_its_cluster_until_it_is_complete() {
    let Some(harness) = AppHarness::open().await else { return };
    let mut pod = template("bob");
    pod["spec"]["restartPolicy"] = "Never".into();
    let jobs = harness.harness.namespace.api::<Job>();
    jobs.create(&PostParams::default(), &object("bob", &json!({"template": pod, "backoffLimit": 4})))
        .await
        .expect("a Job");
    output_of(&harness.create("own", &["--app", "job/bob", "--ephemeral"]));
    let pods = harness.harness.namespace.api::<Pod>();
    for _ in 0..2 {
        let driver = harness.pod_of("bob").await;
        let failed = json!({"status": {"phase": "Failed"}});
        harness.assert_ends(
            &["delete", "own", "--app", &driver, "--app-status", "completed", "--exit-code", "7"],
            3,
            "job is not finished",
        );
        pods.patch_status(&driver, &PatchParams::default(), &Patch::Merge(&failed)).await.expect("it failed");
        eventually("another pod", TIMEOUT, async || {
            let running =
                |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Failed");
            let found = pods.list(&ListParams::default().labels("app=bob")).await.expect("a list").items;
            if found.iter().any(running) { Ok(()) } else { Err("there is none yet") }
        })
        .await;
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let _ = pods.delete(&driver, &now).await;
    }
    harness.assert_exists("own");
    let driver = harness.pod_of("bob").await;
    output_of(&harness.muster(&[
        "delete",
        "own",
        "--app",
        &driver,
        "--app-status",
        "completed",
        "--exit-code",
        "0",
    ]));
    harness.wait_until_deleted("own").await;
    harness.close().await;
}

#[tokio::test]
async fn apps_are_attached_to_shared_clusters_and_listed() {
    let Some(harness) = AppHarness::open().await else { return };
    let (bob, ann) = (harness.deployment("bob").await, harness.deployment("ann").await);
    output_of(&harness.create("shared", &[]));
    output_of(&harness.create("own", &["--app", "bob", "--ephemeral"]));
    for _ in 0..2 {
        output_of(&harness.muster(&["app", "attach", "deploy/ann", "--cluster", "shared"]));
    }
    harness.assert_ends(&["app", "attach", "deploy/ann", "--cluster", "own"], 3, "belongs to app");
    harness.assert_ends(&["app", "detach", "deploy/bob", "--cluster", "own"], 3, "cannot leave it");
    output_of(&harness.muster(&["app", "attach", "deploy/bob", "--cluster", "shared"]));
    let list = output_of(&harness.muster(&["app", "list", "--cluster", "shared"]));
    assert!(list.contains(&bob) && list.contains(&ann), "{list}");
    let all = output_of(&harness.muster(&["get", "--app", "deploy/bob", "-o", "name"]));
    assert!(all.contains("shared") && all.contains("own"), "{all}");
    let one = output_of(&harness.muster(&["get", "own", "--app", "deploy/bob", "-o", "json"]));
    let one: Value = serde_json::from_str(&one).expect("JSON");
    assert_eq!(one["name"], "own", "one cluster is an object: {one}");
    assert_eq!(
        harness.label_of(&ann).await.as_deref(),
        Some(""),
        "watched, without a cluster of its drivers"
    );
    assert_eq!(harness.label_of(&bob).await.as_deref(), Some("own"), "the one that discovery uses");
    output_of(&harness.muster(&["app", "detach", "deploy/ann", "--cluster", "shared"]));
    assert_eq!(harness.label_of(&ann).await, None);
    let old = output_of(&harness.muster(&["get", "-d"]));
    assert!(old.lines().any(|line| line.starts_with("shared") && line.ends_with("<shared>")), "{old}");
    harness.close().await;
}

#[tokio::test]
async fn the_label_of_the_object_takes_precedence_over_the_row() {
    let Some(harness) = AppHarness::open().await else { return };
    harness.deployment("bob").await;
    output_of(&harness.create("own", &["--app", "bob", "--ephemeral"]));
    let masters = harness.harness.namespace.api::<Deployment>();
    let relabel = async |value: Value| {
        let patch = json!({"metadata": {"labels": {"ephemeral": value}}});
        masters.patch("own-m", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("it is labelled");
    };
    relabel("other-1".into()).await;
    harness.wait_for_words("own", "other-1").await;
    let delete = ["delete", "own", "--app", "deploy/bob", "--app-status", "completed"];
    harness.assert_ends(&delete, 3, "cluster is not linked to app");
    relabel(Value::Null).await;
    harness.wait_for_words("own", "<shared>").await;
    harness.assert_ends(&delete, 3, "cluster is not ephemeral");
    output_of(&harness.muster(&["delete", "own"]));
    harness.close().await;
}
