//! Projects whose namespaces have other names.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use muster_testkit::Operator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::release;
use crate::server::Server;

/// Starts a development server that maps project `demo` to a namespace, with the token of a member.
async fn started(namespace: &str, arguments: &[&str]) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, tokens) = (folder.path().join("muster.toml"), folder.path().join("tokens.toml"));
    std::fs::write(&config, format!("[project_namespaces]\ndemo = \"{namespace}\"\n")).expect("written");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(["token", "create", "mia", "--project", "demo", "--role", "member", "--file"])
        .arg(&tokens)
        .output()
        .expect("the binary runs");
    let token = String::from_utf8(output.stdout).expect("text").trim().to_owned();
    let (config, scheme) =
        (config.to_str().expect("plain").to_owned(), format!("tokens:{}", tokens.display()));
    let fixed = ["--dev", "--config", &config, "--auth", &scheme];
    let mut server = Server::start(folder, &[&fixed, arguments].concat()).await;
    server.token = token;
    server
}

fn simulated(name: &str) -> Value {
    let groups = json!([{"group_name": "small", "replicas": 1}]);
    json!({"name": name, "profile": "simulated.node-1.0", "cluster_spec": {"worker_group_spec": groups}})
}

#[tokio::test]
async fn objects_created_in_a_namespace_belong_to_its_project() {
    let server = started("team-a", &[]).await;
    let made = server.core(Method::POST, "/namespaces/team-a/clusters", Some(&simulated("fred"))).await;
    assert_eq!((&made["project"], &made["namespace"]), (&json!("demo"), &json!("team-a")));
    for elsewhere in ["demo", "other"] {
        let path = format!("/apis/v1alpha2/namespaces/{elsewhere}/clusters");
        let (status, refused) = server.call(Method::POST, &path, Some(&simulated("barney"))).await;
        let sentence = format!("namespace '{elsewhere}' could not be found: use your namespace 'team-a'");
        assert_eq!((status, &refused["message"]), (404, &json!(sentence)));
    }
}

#[tokio::test]
async fn the_clustering_api_creates_objects_in_the_namespace_of_the_project() {
    let server = started("team-a", &[]).await;
    let spec = json!({"type": "local.process", "version": "1.0", "properties": {"command": ["true"]}});
    let profile = json!({"profile": {"name": "p", "spec": spec}});
    let (status, profile) = server.call(Method::POST, "/clustering/v1/profiles", Some(&profile)).await;
    assert_eq!(status, 201, "{profile}");
    let body =
        json!({"cluster": {"name": "fred", "profile_id": profile["profile"]["id"], "desired_capacity": 0}});
    let (status, made) = server.call(Method::POST, "/clustering/v1/clusters", Some(&body)).await;
    assert_eq!((status, &made["cluster"]["project"]), (202, &json!("demo")), "{made}");
    let found = server.core(Method::GET, "/namespaces/team-a/clusters/fred", None).await;
    assert_eq!(found["namespace"], "team-a");

    let foreign = json!({"profile": {"name": "q", "spec": {
        "type": "ray.cluster", "version": "1.0", "properties": {"namespace": "team-b"},
    }}});
    let (status, refused) = server.call(Method::POST, "/clustering/v1/profiles", Some(&foreign)).await;
    let printed = refused["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(status, 403, "{refused}");
    assert!(printed.starts_with("namespace 'team-b' does not belong to project 'demo'"), "{printed}");
}

#[tokio::test]
async fn clusters_discovered_in_a_namespace_belong_to_its_project_and_other_pods_cannot_be_adopted() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(_kuberay) = kubernetes.operator(Operator::KubeRay).await else { return };
    let namespace = kubernetes.namespace().await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("ray.io", "v1", "RayCluster"));
    let api: Api<DynamicObject> = Api::namespaced_with(kubernetes.client(), namespace.name(), &kind);
    let container = json!({"name": "ray", "image": "rayproject/ray:2.52.0"});
    let template = json!({"spec": {"containers": [container]}});
    let spec = json!({"headGroupSpec": {"rayStartParams": {}, "template": template}});
    let theirs = DynamicObject::new("theirs", &kind).data(json!({"spec": spec}));
    api.create(&PostParams::default(), &theirs).await.unwrap();
    let token = release::admin_token(&kubernetes);
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = release::kubeconfig(&kubernetes, &folder, &token);
    let server = started(
        namespace.name(),
        &["--kubeconfig", kubeconfig.to_str().unwrap(), "--namespace", namespace.name()],
    )
    .await;
    let found = server.discovered(namespace.name(), "theirs").await;
    assert_eq!((&found["project"], &found["namespace"]), (&json!("demo"), &json!(namespace.name())));
    // Its members cannot adopt pods of other namespaces.
    let pod = json!({"identity": "kube-system/theirs", "type": "kubernetes.pod-1.0"});
    for path in ["/clustering/v1/nodes/adopt", "/clustering/v1/nodes/adopt-preview"] {
        let (status, refused) = server.call(Method::POST, path, Some(&pod)).await;
        assert_eq!(status, 403, "{refused}");
        let printed = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(
            printed.starts_with("namespace 'kube-system' does not belong to project 'demo'"),
            "{printed}"
        );
    }
}
