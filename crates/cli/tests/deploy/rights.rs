//! Muster with the rights of the chart, and with one less.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use muster_testkit::{Kubernetes, Namespace, Operator};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::release;
use crate::render;
use crate::server::{PATIENCE, Server};

const WAIT: &str = "wait_for=reached&wait_timeout=120s";

struct House {
    server: Server,
    kubernetes: Kubernetes,
    namespace: Namespace,
}

impl House {
    /// A server with the account of the chart, whose objects `change` may change before; none if the test is skipped.
    async fn open(everywhere: bool, change: impl Fn(&mut Value)) -> Option<Self> {
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
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = release::kubeconfig(&kubernetes, &folder, &token);
        let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().expect("a plain path")];
        if !everywhere {
            arguments.extend(["--namespace", namespace.name()]);
        }
        let server = Server::start(folder, &arguments).await;
        Some(Self { server, kubernetes, namespace })
    }

    fn clusters(&self) -> String {
        format!("/namespaces/{}/clusters", self.namespace.name())
    }

    async fn create(&self, cluster: &Value) -> Value {
        self.server.core(Method::POST, &format!("{}?{WAIT}", self.clusters()), Some(cluster)).await
    }

    async fn scale(&self, name: &str, workers: u32) -> (u16, Value) {
        let body = json!({"replicas": workers, "wait_for": "reached", "wait_timeout": "120s"});
        let path = format!("/apis/v1alpha2{}/{name}/scale", self.clusters());
        self.server.call(Method::POST, &path, Some(&body)).await
    }

    async fn restart_head(&self, name: &str) -> (u16, Value) {
        let body = json!({"wait_for": "reached", "wait_timeout": "120s"});
        let path = format!("/apis/v1alpha2{}/{name}/restart_head", self.clusters());
        self.server.call(Method::POST, &path, Some(&body)).await
    }

    async fn delete(&self, name: &str) {
        self.server.core(Method::DELETE, &format!("{}/{name}?{WAIT}", self.clusters()), None).await;
    }

    /// Whether a command succeeds, and what it says on both outputs.
    fn run(&self, command: &[&str]) -> (bool, String) {
        let output = self.server.muster(&[command, &["-n", self.namespace.name()]].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    /// Asks for the log of a pod that no machine has room for, until the server has heard of that pod: then it is
    /// empty, if it may be asked for.
    async fn log_of_nothing(&self) -> (bool, String) {
        let mut cluster = of_pods(1);
        cluster["profile_properties"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "1000"}});
        let path = format!("{}?wait_for=applied", self.clusters());
        self.server.core(Method::POST, &path, Some(&cluster)).await;
        let heard = async {
            loop {
                let (good, said) = self.run(&["logs", "barney"]);
                if good || said.contains("forbidden") {
                    return (good, said);
                }
                tokio::task::yield_now().await;
            }
        };
        let heard = tokio::time::timeout(PATIENCE, heard).await.expect("the pod is heard of");
        self.delete("barney").await;
        heard
    }

    async fn ray(&self, name: &str) -> Option<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ray.io", "v1", "RayCluster"));
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.kubernetes.client(), self.namespace.name(), &kind);
        api.get_opt(name).await.expect("the API server answers")
    }
}

fn of_framework(framework: &str, workers: u32) -> Value {
    let shape = json!({"cpu": "1", "memory": "1Gi"});
    let group = json!({"group_name": "default", "replicas": workers, "shape": shape});
    json!({"name": "fred", "framework": framework, "cluster_spec": {"worker_group_spec": [group]}})
}

fn of_pods(workers: u32) -> Value {
    let container = json!({"name": "main", "image": "example.test/it:1"});
    json!({
        "name": "barney",
        "profile": "kubernetes.pod-1.0",
        "profile_properties": {"template": {"spec": {"containers": [container]}}},
        "cluster_spec": {"worker_group_spec": [{"group_name": "small", "replicas": workers}]},
    })
}

#[rstest]
#[case::in_a_namespace(false)]
#[case::everywhere(true)]
#[tokio::test]
async fn the_rights_of_the_chart_are_enough_for_ray_and_for_pods(#[case] everywhere: bool) {
    let Some(house) = House::open(everywhere, |_| {}).await else { return };
    let made = house.create(&of_framework("ray", 1)).await;
    assert_eq!((&made["flavor"], &made["provider"]), (&json!("kuberay"), &json!("kubernetes")), "{made}");
    let (status, scaled) = house.scale("fred", 2).await;
    assert_eq!(status, 200, "{scaled}");
    let (_, environment) = house.run(&["env", "fred"]);
    assert!(environment.contains("RAY_AUTH_TOKEN="), "the operator's secret was read: {environment}");
    house.delete("fred").await;
    assert!(house.ray("fred").await.is_none_or(|object| object.metadata.deletion_timestamp.is_some()));

    house.create(&of_pods(1)).await;
    let (status, scaled) = house.scale("barney", 2).await;
    assert_eq!(status, 200, "{scaled}");
    house.delete("barney").await;
}

#[tokio::test]
async fn the_rights_of_the_chart_are_enough_to_ask_for_logs() {
    let Some(house) = House::open(false, |_| {}).await else { return };
    assert_eq!(house.log_of_nothing().await, (true, String::new()));
}

#[rstest]
#[case::native("spark", None, [2, 1])]
#[case::dask_operator("dask", Some(Operator::Dask), [1, 2])]
#[tokio::test]
async fn the_rights_of_the_chart_are_enough_for_spark_and_dask(
    #[case] framework: &str,
    #[case] operator: Option<Operator>,
    #[case] sizes: [u32; 2],
) {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    if let Some(operator) = operator
        && kubernetes.operator(operator).await.is_none()
    {
        return;
    }
    let Some(house) = House::open(false, |_| {}).await else { return };
    house.create(&of_framework(framework, sizes[0])).await;
    let (status, scaled) = house.scale("fred", sizes[1]).await;
    assert_eq!(status, 200, "{scaled}");
    let (status, restarted) = house.restart_head("fred").await;
    assert_eq!(status, 200, "{restarted}");
    house.delete("fred").await;
}

/// Takes a verb on a resource away from a role.
fn without(role: &mut Value, verb: &str, resource: &str) {
    let Some(rules) = role.get_mut("rules").and_then(Value::as_array_mut) else { return };
    for rule in rules.iter_mut().filter(|rule| rule["resources"] == json!([resource])) {
        let verbs = rule["verbs"].as_array_mut().expect("verbs");
        verbs.retain(|given| given != verb);
    }
    rules.retain(|rule| rule["verbs"] != json!([]));
}

#[tokio::test]
async fn a_right_that_is_missing_is_named_with_its_verb_and_its_resource() {
    let Some(house) = House::open(false, |role| without(role, "patch", "rayclusters")).await else { return };
    house.create(&of_framework("ray", 1)).await;
    let (status, refused) = house.scale("fred", 2).await;
    let said = refused.to_string();
    assert_ne!(status, 200, "{said}");
    assert!(said.contains("cannot change RayCluster") && said.contains("forbidden"), "{said}");
    assert!(said.contains("cannot patch resource \\\"rayclusters\\\""), "{said}");
    let object = house.ray("fred").await.expect("the cluster");
    assert_eq!(object.data["spec"]["workerGroupSpecs"][0]["replicas"], 1, "it is as it was");
    house.delete("fred").await;
}

#[tokio::test]
async fn what_may_not_be_made_fails_with_a_sentence_that_names_the_right() {
    let Some(house) = House::open(false, |role| without(role, "create", "pods")).await else { return };
    let path = format!("/apis/v1alpha2{}?{WAIT}", house.clusters());
    let (_, answer) = house.server.call(Method::POST, &path, Some(&of_pods(1))).await;
    let (_, row) =
        house.server.call(Method::GET, &format!("/apis/v1alpha2{}/barney", house.clusters()), None).await;
    let said = format!("{answer}{row}");
    assert!(said.contains("cannot create resource \\\"pods\\\""), "{said}");
}

#[tokio::test]
async fn logs_that_may_not_be_read_say_which_right_is_missing() {
    let Some(house) = House::open(false, |role| without(role, "get", "pods/log")).await else { return };
    let (good, said) = house.log_of_nothing().await;
    assert!(!good && said.contains("cannot get resource \"pods/log\""), "{said}");
}
