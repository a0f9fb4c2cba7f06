//! The harness of the tests about apps: their workloads, and a server with a short grace period.

use std::process::Output;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use muster_testkit::eventually;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::harness::{Harness, output_of};
use crate::server::{Server, TIMEOUT};

/// Label of pods that the testbed ignores: the tests act as their kubelet.
pub(crate) const DRIVER: (&str, &str) = ("muster.test/driver", "true");

/// Short periods, so that tests do not wait long.
pub(crate) const SHORT_GRACE: &[&str] = &["--app-grace", "1"];

pub(crate) fn labels(name: &str) -> Value {
    json!({"app": name, DRIVER.0: DRIVER.1})
}

pub(crate) fn template(name: &str) -> Value {
    let container = json!({"name": "driver", "image": "example.test/driver:1"});
    json!({"metadata": {"labels": labels(name)}, "spec": {"containers": [container]}})
}

pub(crate) fn object<K: DeserializeOwned>(name: &str, spec: &Value) -> K {
    let object = json!({"metadata": {"name": name}, "spec": spec});
    serde_json::from_value(object).expect("an object")
}

pub(crate) fn set(name: &str, replicas: u32) -> Value {
    json!({"replicas": replicas, "selector": {"matchLabels": labels(name)}, "template": template(name)})
}

pub(crate) fn stateful_set(name: &str) -> StatefulSet {
    let mut spec = set(name, 1);
    spec["serviceName"] = name.into();
    object(name, &spec)
}

pub(crate) struct AppHarness {
    pub(crate) harness: Harness,
    pub(crate) server: Server,
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

impl AppHarness {
    pub(crate) async fn open() -> Option<Self> {
        let harness = Harness::with(None).await?;
        let server = harness.server(SHORT_GRACE).await;
        Some(Self { harness, server })
    }

    pub(crate) fn muster(&self, arguments: &[&str]) -> Output {
        self.harness.muster(&self.server, arguments)
    }

    /// Runs a command, and asserts its exit code and output.
    pub(crate) fn assert_ends(&self, arguments: &[&str], code: i32, words: &str) {
        let output = self.muster(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(words), "{arguments:?} says '{words}': {}", text(&output));
    }

    /// Creates a Spark cluster without workers, which needs no operator.
    pub(crate) fn create(&self, name: &str, more: &[&str]) -> Output {
        let own = ["create", name, "--framework", "spark", "--workers", "0", "--provider", "kubernetes"];
        self.muster(&[&own, more].concat())
    }

    pub(crate) async fn deployment(&self, name: &str) -> String {
        let deployments = self.harness.namespace.api::<Deployment>();
        deployments.create(&PostParams::default(), &object(name, &set(name, 1))).await.expect("a Deployment");
        self.replica_set(name, None).await
    }

    /// Waits until a Deployment has a ReplicaSet with a pod, other than this one, and returns its name.
    pub(crate) async fn replica_set(&self, deployment: &str, other_than: Option<&str>) -> String {
        let sets = self.harness.namespace.api::<ReplicaSet>();
        let chosen = ListParams::default().labels(&format!("app={deployment}"));
        eventually("a ReplicaSet", TIMEOUT, async || {
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
        eventually("a pod", TIMEOUT, async || {
            let found = pods.list(&chosen).await.expect("a list").items;
            let alive = found.into_iter().find(|pod| pod.metadata.deletion_timestamp.is_none());
            alive.and_then(|pod| pod.metadata.name).ok_or("there is none yet")
        })
        .await
    }

    /// Ends all driver pods at once, as a kubelet would.
    pub(crate) async fn end_pods(&self) {
        self.end_pods_with(&format!("{}={}", DRIVER.0, DRIVER.1)).await;
    }

    /// Ends the pods of an app.
    pub(crate) async fn end_pods_of(&self, app: &str) {
        self.end_pods_with(&format!("app={app}")).await;
    }

    pub(crate) async fn end_pods_with(&self, labels: &str) {
        let pods = self.harness.namespace.api::<Pod>();
        let chosen = ListParams::default().labels(labels);
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        pods.delete_collection(&now, &chosen).await.expect("pods can be deleted");
    }

    pub(crate) async fn wait_until_deleted(&self, cluster: &str) {
        eventually(&format!("cluster {cluster} is gone"), TIMEOUT, async || {
            let got = self.muster(&["get", cluster]);
            if got.status.code() == Some(4) { Ok(()) } else { Err(text(&got)) }
        })
        .await;
    }

    pub(crate) fn assert_exists(&self, cluster: &str) {
        let shown = output_of(&self.muster(&["get", cluster]));
        assert!(!shown.contains("DELETING"), "{shown}");
    }

    pub(crate) async fn label_of(&self, set: &str) -> Option<String> {
        let found = self.harness.namespace.api::<ReplicaSet>().get(set).await.expect("a ReplicaSet");
        found.metadata.labels.unwrap_or_default().remove("uses-oshinko-cluster")
    }

    /// Waits until the line of a cluster contains these words.
    pub(crate) async fn wait_for_words(&self, cluster: &str, words: &str) {
        eventually(&format!("{cluster} shows {words}"), TIMEOUT, async || {
            let shown = output_of(&self.muster(&["get", cluster]));
            if shown.contains(words) { Ok(()) } else { Err(shown) }
        })
        .await;
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

    pub(crate) async fn scale(&self, deployment: &str, replicas: u32) {
        let patch = json!({"spec": {"replicas": replicas}});
        let deployments = self.harness.namespace.api::<Deployment>();
        let patched = deployments.patch(deployment, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.expect("it can be scaled");
        let sets = self.harness.namespace.api::<ReplicaSet>();
        let chosen = ListParams::default().labels(&format!("app={deployment}"));
        eventually("the ReplicaSet is scaled", TIMEOUT, async || {
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
