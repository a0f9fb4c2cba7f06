//! A namespace of Kubernetes, and servers over it.

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
    /// With the KubeRay operator; none if the test is skipped.
    pub(crate) async fn open() -> Option<Self> {
        Self::with(Some(Operator::KubeRay)).await
    }

    /// With an operator, where one is needed; none if the test is skipped.
    pub(crate) async fn with(operator: Option<Operator>) -> Option<Self> {
        let kubernetes = muster_testkit::kubernetes().await?;
        if let Some(operator) = operator {
            kubernetes.operator(operator).await?;
        }
        let namespace = kubernetes.namespace().await;
        Some(Self { kubernetes, namespace })
    }

    /// A server that serves just this namespace.
    pub(crate) async fn server(&self, more: &[&str]) -> Server {
        self.server_through(self.kubernetes.kubeconfig(), more).await
    }

    /// The same, with another way to Kubernetes.
    pub(crate) async fn server_through(&self, kubeconfig: &Path, more: &[&str]) -> Server {
        let kubeconfig = kubeconfig.to_str().expect("a path of plain letters");
        let own = ["--dev", "--kubeconfig", kubeconfig, "--namespace", self.namespace.name()];
        Server::start(&[&own, more].concat()).await
    }

    /// Where clusters of this namespace are, at the core API.
    pub(crate) fn clusters(&self) -> String {
        format!("/namespaces/{}/clusters", self.namespace.name())
    }

    /// A command about this namespace.
    pub(crate) fn muster(&self, server: &Server, arguments: &[&str]) -> Output {
        server.muster(&[arguments, &["-n", self.namespace.name()]].concat())
    }

    pub(crate) fn ray_clusters(&self) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ray.io", "v1", "RayCluster"));
        Api::namespaced_with(self.kubernetes.client(), self.namespace.name(), &kind)
    }

    /// How many workers the objects ask for, by name.
    pub(crate) async fn asked_for(&self) -> Vec<(String, Value)> {
        let all = self.ray_clusters().list(&ListParams::default()).await.expect("a list");
        let asked = |object: DynamicObject| {
            let replicas = object.data["spec"]["workerGroupSpecs"][0]["replicas"].clone();
            (object.metadata.name.expect("a name"), replicas)
        };
        all.items.into_iter().map(asked).collect()
    }

    /// The pods that stay, by their UIDs.
    pub(crate) async fn pods(&self) -> BTreeSet<String> {
        let pods = self.namespace.api::<Pod>().list(&ListParams::default()).await.expect("a list");
        let stay = pods.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        stay.filter_map(|pod| pod.metadata.uid).collect()
    }
}

/// What a command printed, which has succeeded.
pub(crate) fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
