//! Labels of ephemeral clusters that other programs change, and clusters of which only parts are left.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy};
use muster_testkit::eventually;
use serde_json::{Value, json};

use crate::app_harness::AppHarness;
use crate::harness::output_of;
use crate::server::TIMEOUT;

fn unlabelled() -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"labels": {"ephemeral": null}}}))
}

impl AppHarness {
    /// Lists the names of all Deployments and Services of a cluster.
    async fn parts(&self, cluster: &str) -> Vec<String> {
        let own = ListParams::default().labels(&format!("oshinko-cluster={cluster}"));
        let (deployments, services) =
            (self.harness.namespace.api::<Deployment>(), self.harness.namespace.api::<Service>());
        let deployments = deployments.list(&own).await.expect("a list").items.into_iter();
        let services = services.list(&own).await.expect("a list").items.into_iter();
        let deployments = deployments.filter_map(|found| found.metadata.name);
        deployments.chain(services.filter_map(|found| found.metadata.name)).collect()
    }

    /// Deletes the master of a cluster without its dependents.
    async fn delete_master_alone(&self, cluster: &str) {
        let orphan =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
        let deployments = self.harness.namespace.api::<Deployment>();
        deployments.delete(&format!("{cluster}-m"), &orphan).await.expect("it is deleted");
        eventually("the cluster says what is missing", TIMEOUT, async || {
            let shown = output_of(&self.muster(&["get", cluster, "-o", "json"]));
            if shown.contains("its root object was deleted without") { Ok(()) } else { Err(shown) }
        })
        .await;
    }

    async fn assert_no_parts(&self, cluster: &str) {
        eventually("nothing is left of it", TIMEOUT, async || match self.parts(cluster).await {
            parts if parts.is_empty() => Ok(()),
            parts => Err(parts.join(", ")),
        })
        .await;
    }
}

#[tokio::test]
async fn a_cluster_without_its_master_is_deleted_for_its_app_only() {
    let Some(harness) = AppHarness::open().await else { return };
    harness.deployment("bob").await;
    harness.deployment("ann").await;
    output_of(&harness.create("own", &["--app", "bob", "--ephemeral"]));
    harness.delete_master_alone("own").await;
    let completed = |app: &'static str| ["delete", "own", "--app", app, "--app-status", "completed"];
    harness.assert_ends(&completed("deploy/ann"), 3, "cluster is not linked to app");
    harness.assert_ends(
        &["scale", "own", "--workers", "1"],
        1,
        "deleted without its other objects: delete the cluster",
    );
    assert!(!harness.parts("own").await.is_empty());
    output_of(&harness.muster(&completed("deploy/bob")));
    harness.wait_until_deleted("own").await;
    harness.assert_no_parts("own").await;
    harness.close().await;
}

#[tokio::test]
async fn a_cluster_without_any_label_of_an_app_is_not_deleted_for_one() {
    let Some(harness) = AppHarness::open().await else { return };
    harness.deployment("bob").await;
    output_of(&harness.create("own", &["--app", "bob", "--ephemeral"]));
    harness.delete_master_alone("own").await;
    let (deployments, services) =
        (harness.harness.namespace.api::<Deployment>(), harness.harness.namespace.api::<Service>());
    let parameters = PatchParams::default();
    for name in harness.parts("own").await {
        let without = unlabelled();
        if name.ends_with("-w") {
            deployments.patch(&name, &parameters, &without).await.expect("the label is removed");
        } else {
            services.patch(&name, &parameters, &without).await.expect("the label is removed");
        }
    }
    harness.wait_for_words("own", "<shared>").await;
    let delete = ["delete", "own", "--app", "deploy/bob", "--app-status", "completed"];
    harness.assert_ends(&delete, 3, "cluster is not ephemeral");
    output_of(&harness.muster(&["delete", "own"]));
    harness.assert_no_parts("own").await;
    harness.close().await;
}

#[tokio::test]
async fn remaining_labels_of_a_former_app_do_not_restore_it() {
    let Some(harness) = AppHarness::open().await else { return };
    harness.deployment("bob").await;
    output_of(&harness.create("own", &["--app", "bob", "--ephemeral"]));
    let masters = harness.harness.namespace.api::<Deployment>();
    masters.patch("own-m", &PatchParams::default(), &unlabelled()).await.expect("it is labelled");
    harness.wait_for_words("own", "<shared>").await;
    harness.delete_master_alone("own").await;
    let shown = output_of(&harness.muster(&["get", "own"]));
    assert!(shown.contains("<shared>") && shown.contains("CRITICAL"), "{shown}");
    let delete = ["delete", "own", "--app", "deploy/bob", "--app-status", "completed"];
    harness.assert_ends(&delete, 3, "cluster is not ephemeral");
    output_of(&harness.muster(&["delete", "own"]));
    harness.close().await;
}

#[tokio::test]
async fn an_app_that_the_label_no_longer_names_does_not_delete_the_cluster() {
    let Some(harness) = AppHarness::open().await else { return };
    let set = harness.deployment("bob").await;
    output_of(&harness.create("own", &["--app", "bob", "--ephemeral"]));
    output_of(&harness.create("goes", &["--app", "bob", "--ephemeral"]));
    let masters = harness.harness.namespace.api::<Deployment>();
    masters.patch("own-m", &PatchParams::default(), &unlabelled()).await.expect("it is labelled");
    eventually("its app no longer owns it", TIMEOUT, async || {
        let metadata = masters.get("own-m").await.expect("the master").metadata;
        let owners = metadata.owner_references.unwrap_or_default();
        let is_marked = metadata.annotations.unwrap_or_default().contains_key("muster.dev/app");
        if owners.is_empty() && !is_marked { Ok(()) } else { Err(format!("{owners:?} {is_marked}")) }
    })
    .await;
    let list = output_of(&harness.muster(&["app", "list", "--cluster", "own"]));
    assert!(!list.contains(&set) || !list.contains("true"), "the app no longer decides: {list}");
    let sets = harness.harness.namespace.api::<ReplicaSet>();
    let deployments = harness.harness.namespace.api::<Deployment>();
    deployments.delete("bob", &DeleteParams::background()).await.expect("it is deleted");
    harness.end_pods().await;
    eventually("the app is gone", TIMEOUT, async || match sets.get_opt(&set).await.expect("an answer") {
        None => Ok(()),
        Some(_) => Err("it is there"),
    })
    .await;
    // Kubernetes' garbage collector deletes what the same app owned.
    harness.wait_until_deleted("goes").await;
    harness.assert_exists("own");
    // An empty label names no app; the name of a missing app ends the cluster.
    let labelled = |name: &str| Patch::Merge(json!({"metadata": {"labels": {"ephemeral": name}}}));
    masters.patch("own-m", &PatchParams::default(), &labelled("")).await.expect("it is labelled");
    harness.wait_for_words("own", "<shared>").await;
    masters
        .patch("own-m", &PatchParams::default(), &labelled("nothing-has-this-name"))
        .await
        .expect("labelled");
    harness.wait_until_deleted("own").await;
    harness.close().await;
}

#[tokio::test]
async fn an_app_that_a_user_labelled_is_listed_and_watched() {
    let Some(harness) = AppHarness::open().await else { return };
    let set = harness.deployment("bob").await;
    output_of(&harness.create("own", &[]));
    let masters = harness.harness.namespace.api::<Deployment>();
    let labelled = Patch::Merge(json!({"metadata": {"labels": {"ephemeral": set}}}));
    masters.patch("own-m", &PatchParams::default(), &labelled).await.expect("it is labelled");
    eventually("the app is labelled", TIMEOUT, async || match harness.label_of(&set).await {
        Some(label) => Ok(label),
        None => Err("it has no label"),
    })
    .await;
    let list = output_of(&harness.muster(&["app", "list", "--cluster", "own"]));
    assert!(list.contains(&set), "{list}");
    let used = output_of(&harness.muster(&["get", "--app", "deploy/bob", "-o", "name"]));
    assert_eq!(used.trim(), "own");
    // Long before the periodic observation of unchanged apps.
    harness
        .harness
        .namespace
        .api::<Deployment>()
        .delete("bob", &DeleteParams::background())
        .await
        .expect("deleted");
    harness.end_pods().await;
    harness.wait_until_deleted("own").await;
    harness.close().await;
}
