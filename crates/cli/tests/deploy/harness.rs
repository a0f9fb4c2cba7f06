//! The harness of these tests: a server with a service account of the chart.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use muster_testkit::{Kubernetes, Namespace, Operator, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::release;
use crate::render;
use crate::server::{Server, TIMEOUT};

pub(crate) const WAIT: &str = "wait_for=reached&wait_timeout=120s";

pub(crate) struct Harness {
    pub(crate) server: Server,
    pub(crate) kubernetes: Kubernetes,
    pub(crate) namespace: Namespace,
}

impl Harness {
    /// Starts a server with the account of the chart, whose objects `change` may change first; `None` if the test is skipped.
    pub(crate) async fn open(everywhere: bool, change: impl Fn(&mut Value)) -> Option<Self> {
        Self::open_with(everywhere, change, async |kubernetes, namespace, token| {
            let folder = tempfile::tempdir().expect("a folder");
            let kubeconfig = release::kubeconfig(kubernetes, &folder, token);
            let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().expect("a plain path")];
            if !everywhere {
                arguments.extend(["--namespace", namespace.name()]);
            }
            Some(Server::start(folder, &arguments).await)
        })
        .await
    }

    /// Starts the server in another way, with the account's token.
    pub(crate) async fn open_with(
        everywhere: bool,
        change: impl Fn(&mut Value),
        start: impl AsyncFn(&Kubernetes, &Namespace, &str) -> Option<Server>,
    ) -> Option<Self> {
        let kubernetes = muster_testkit::kubernetes().await?;
        kubernetes.operator(Operator::KubeRay).await?;
        let namespace = kubernetes.namespace().await;
        let own = format!("namespaces={{{}}}", namespace.name());
        let values: &[&str] = if everywhere { &[] } else { &[&own] };
        let mut objects = render::objects(namespace.name(), values).await?;
        let account =
            render::the(&objects, "ServiceAccount")["metadata"]["name"].as_str().expect("a name").to_owned();
        objects.retain(|object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            kind.ends_with("Role") || kind.ends_with("Binding") || kind == "ServiceAccount"
        });
        objects.iter_mut().for_each(change);
        release::apply(&kubernetes, &namespace, &objects).await;
        let token = release::token(&namespace, &account).await;
        let server = start(&kubernetes, &namespace, &token).await?;
        Some(Self { server, kubernetes, namespace })
    }

    pub(crate) fn clusters(&self) -> String {
        format!("/namespaces/{}/clusters", self.namespace.name())
    }

    pub(crate) async fn create(&self, cluster: &Value) -> Value {
        self.server.core(Method::POST, &format!("{}?{WAIT}", self.clusters()), Some(cluster)).await
    }

    pub(crate) async fn scale(&self, name: &str, workers: u32) -> (u16, Value) {
        let body = json!({"replicas": workers, "wait_for": "reached", "wait_timeout": "120s"});
        let path = format!("/apis/v1alpha2{}/{name}/scale", self.clusters());
        self.server.call(Method::POST, &path, Some(&body)).await
    }

    pub(crate) async fn restart_head(&self, name: &str) -> (u16, Value) {
        let body = json!({"wait_for": "reached", "wait_timeout": "120s"});
        let path = format!("/apis/v1alpha2{}/{name}/restart_head", self.clusters());
        self.server.call(Method::POST, &path, Some(&body)).await
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.server.core(Method::DELETE, &format!("{}/{name}?{WAIT}", self.clusters()), None).await;
    }

    /// Runs a command; returns true if it succeeded, and both outputs.
    pub(crate) fn run(&self, command: &[&str]) -> (bool, String) {
        // Arguments after `--` belong to the command of a job.
        let end = command.iter().position(|argument| *argument == "--").unwrap_or(command.len());
        let (flags, rest) = command.split_at(end);
        let output = self.server.muster(&[flags, &["-n", self.namespace.name()], rest].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    /// Requests the log of a pending pod until the server has observed the pod: then the error says that there is none, unless
    /// a right is missing.
    pub(crate) async fn request_missing_log(&self) -> (bool, String) {
        let mut cluster = of_pods(1);
        cluster["profile_properties"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "1000"}});
        let path = format!("{}?wait_for=applied", self.clusters());
        self.server.core(Method::POST, &path, Some(&cluster)).await;
        let answer = eventually("a server that has observed the pod", TIMEOUT, async || {
            let (good, printed) = self.run(&["logs", "barney"]);
            let known = good || printed.contains("forbidden") || printed.contains("has no log yet");
            if known { Ok((good, printed)) } else { Err(printed) }
        });
        let answer = answer.await;
        self.delete("barney").await;
        answer
    }

    pub(crate) async fn ray(&self, name: &str) -> Option<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ray.io", "v1", "RayCluster"));
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.kubernetes.client(), self.namespace.name(), &kind);
        api.get_opt(name).await.expect("the API server answers")
    }
}

pub(crate) fn of_framework(framework: &str, workers: u32) -> Value {
    let shape = json!({"cpu": "1", "memory": "1Gi"});
    let group = json!({"group_name": "default", "replicas": workers, "shape": shape});
    json!({"name": "fred", "framework": framework, "cluster_spec": {"worker_group_spec": [group]}})
}

pub(crate) fn of_pods(workers: u32) -> Value {
    let container = json!({"name": "main", "image": "example.test/it:1"});
    json!({
        "name": "barney",
        "profile": "kubernetes.pod-1.0",
        "profile_properties": {"template": {"spec": {"containers": [container]}}},
        "cluster_spec": {"worker_group_spec": [{"group_name": "small", "replicas": workers}]},
    })
}

/// Removes a verb on a resource from a role.
pub(crate) fn without(role: &mut Value, verb: &str, resource: &str) {
    let Some(rules) = role.get_mut("rules").and_then(Value::as_array_mut) else { return };
    for rule in rules.iter_mut().filter(|rule| rule["resources"] == json!([resource])) {
        let verbs = rule["verbs"].as_array_mut().expect("verbs");
        verbs.retain(|given| given != verb);
    }
    rules.retain(|rule| rule["verbs"] != json!([]));
}
