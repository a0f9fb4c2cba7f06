//! Apps that are deleted without their pods, and created again under the same name.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams, PropagationPolicy};
use muster_testkit::eventually;

use crate::app_harness::{AppHarness, stateful_set};
use crate::harness::output_of;
use crate::server::TIMEOUT;

impl AppHarness {
    async fn stateful_set(&self, name: &str) -> String {
        let sets = self.harness.namespace.api::<StatefulSet>();
        let made = sets.create(&PostParams::default(), &stateful_set(name)).await.expect("a StatefulSet");
        made.metadata.uid.expect("a UID")
    }

    /// Deletes a StatefulSet without its pod and creates it again: it adopts the pod, which is older by whole seconds.
    async fn replace_around_pod(&self, name: &str) {
        let (sets, pods) = (self.harness.namespace.api::<StatefulSet>(), self.harness.namespace.api::<Pod>());
        let pod = pods.get(&self.pod_of(name).await).await.expect("a pod").metadata;
        let orphan =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
        sets.delete(name, &orphan).await.expect("it is deleted");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        eventually("the next one is younger than the pod", TIMEOUT, async || {
            let would_be = sets.create(&dry, &stateful_set(name)).await.map_err(|error| error.to_string())?;
            let (next, pod) = (would_be.metadata.creation_timestamp, &pod.creation_timestamp);
            if next.as_ref() > pod.as_ref() { Ok(()) } else { Err(format!("{next:?} {pod:?}")) }
        })
        .await;
        let uid = self.stateful_set(name).await;
        self.wait_for_owner(&format!("{name}-0"), &uid, pod.uid.as_deref()).await;
    }

    /// Waits until a pod is controlled by this object: the pod of this UID, or a new one.
    async fn wait_for_owner(&self, pod: &str, owner: &str, uid: Option<&str>) {
        let pods = self.harness.namespace.api::<Pod>();
        eventually("the pod has its owner", TIMEOUT, async || {
            let found = pods.get_opt(pod).await.expect("an answer").ok_or("there is no pod")?.metadata;
            let is_same = uid.is_none() || found.uid.as_deref() == uid;
            let owners = found.owner_references.unwrap_or_default();
            let is_owned = owners.iter().any(|reference| reference.uid == owner);
            if is_owned && is_same { Ok(()) } else { Err("another one") }
        })
        .await;
    }
}

#[tokio::test]
async fn a_cluster_stays_with_the_pod_that_a_successor_of_its_app_adopts_but_not_with_new_pods() {
    let Some(harness) = AppHarness::open().await else { return };
    for (app, cluster) in [("bob", "stays"), ("ann", "goes")] {
        harness.stateful_set(app).await;
        harness.pod_of(app).await;
        output_of(&harness.create(cluster, &["--app", &format!("sts/{app}"), "--ephemeral"]));
    }
    harness.replace_around_pod("bob").await;
    harness.replace_around_pod("ann").await;
    // The successor has its own pod. The app of the other cluster has been gone for longer.
    harness.end_pods_of("ann").await;
    harness.wait_until_deleted("goes").await;
    harness.assert_exists("stays");
    assert!(!output_of(&harness.muster(&["events", "stays"])).contains("AppGone"), "its driver runs");
    harness.end_pods_of("bob").await;
    harness.wait_until_deleted("stays").await;
    harness.close().await;
}
