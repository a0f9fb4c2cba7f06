//! The harness of these tests: a namespace of Kubernetes, and servers that serve it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use muster_testkit::{Kubernetes, Namespace, Operator};
use serde_json::Value;

use crate::server::Server;

pub(crate) struct Harness {
    pub(crate) kubernetes: Kubernetes,
    pub(crate) namespace: Namespace,
}

impl Harness {
    /// Opens a harness with the KubeRay operator; `None` if the test is skipped.
    pub(crate) async fn open() -> Option<Self> {
        Self::with(Some(Operator::KubeRay)).await
    }

    /// Opens a harness with an operator, if one is needed; `None` if the test is skipped.
    pub(crate) async fn with(operator: Option<Operator>) -> Option<Self> {
        let kubernetes = muster_testkit::kubernetes().await?;
        if let Some(operator) = operator {
            kubernetes.operator(operator).await?;
        }
        let namespace = kubernetes.namespace().await;
        Some(Self { kubernetes, namespace })
    }

    /// Starts a server that serves only this namespace.
    pub(crate) async fn server(&self, more: &[&str]) -> Server {
        self.server_through(self.kubernetes.kubeconfig(), more).await
    }

    /// Starts a server with another kubeconfig.
    pub(crate) async fn server_through(&self, kubeconfig: &Path, more: &[&str]) -> Server {
        let kubeconfig = kubeconfig.to_str().expect("a path of plain letters");
        let own = ["--dev", "--kubeconfig", kubeconfig, "--namespace", self.namespace.name()];
        Server::start(&[&own, more].concat()).await
    }

    /// Path of the clusters of this namespace in the core API.
    pub(crate) fn clusters(&self) -> String {
        format!("/namespaces/{}/clusters", self.namespace.name())
    }

    /// Runs a command in this namespace.
    pub(crate) fn muster(&self, server: &Server, arguments: &[&str]) -> Output {
        server.muster(&[arguments, &["-n", self.namespace.name()]].concat())
    }

    pub(crate) fn ray_clusters(&self) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ray.io", "v1", "RayCluster"));
        Api::namespaced_with(self.kubernetes.client(), self.namespace.name(), &kind)
    }

    /// Lists the desired workers of all `RayCluster` objects by name.
    pub(crate) async fn desired_workers(&self) -> Vec<(String, Value)> {
        let all = self.ray_clusters().list(&ListParams::default()).await.expect("a list");
        let asked = |object: DynamicObject| {
            let replicas = object.data["spec"]["workerGroupSpecs"][0]["replicas"].clone();
            (object.metadata.name.expect("a name"), replicas)
        };
        all.items.into_iter().map(asked).collect()
    }

    /// Lists the UIDs of pods that are not being deleted.
    pub(crate) async fn pods(&self) -> BTreeSet<String> {
        let pods = self.namespace.api::<Pod>().list(&ListParams::default()).await.expect("a list");
        let stay = pods.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        stay.filter_map(|pod| pod.metadata.uid).collect()
    }
}

/// Returns the output of a command, which must have succeeded.
pub(crate) fn output_of(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
