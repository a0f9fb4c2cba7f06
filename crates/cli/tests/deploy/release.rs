//! Installs the chart in a test's namespace.

use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace as NamespaceObject, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use muster_testkit::{Kubernetes, Namespace};
use serde_json::{Value, json};

/// Kinds without a namespace.
const CLUSTER_WIDE: [&str; 4] = ["ClusterRole", "ClusterRoleBinding", "Namespace", "PriorityClass"];

/// Applies objects with real validation. Objects without a namespace are deleted with the test's namespace.
pub(crate) async fn apply(kubernetes: &Kubernetes, namespace: &Namespace, objects: &[Value]) {
    let client = kubernetes.client();
    let owner = reference(&client, namespace.name()).await;
    for object in objects {
        let mut object = object.clone();
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        if CLUSTER_WIDE.contains(&kind.as_str()) {
            object["metadata"]["ownerReferences"] = json!([owner]);
        }
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let parameters = PatchParams::apply("deploy-test").validation_strict();
        let applied = api(&client, &object).patch(&name, &parameters, &Patch::Apply(&object)).await;
        applied.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }
}

async fn reference(client: &Client, namespace: &str) -> Value {
    let namespaces: Api<NamespaceObject> = Api::all(client.clone());
    let uid = namespaces.get(namespace).await.expect("the namespace").metadata.uid;
    json!({"apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": uid})
}

fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &text(&object["kind"])));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Creates a service account.
pub(crate) async fn account(namespace: &Namespace, name: &str) {
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": name}})).expect("an account");
    namespace.api::<ServiceAccount>().create(&PostParams::default(), &account).await.expect("it is made");
}

/// Grants a service account the rights of a cluster role in its namespace.
pub(crate) async fn bind_role(namespace: &Namespace, account: &str, role: &str) {
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": namespace.name()});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": account}, "subjects": [subject], "roleRef": role,
    }))
    .expect("a binding");
    namespace.api::<RoleBinding>().create(&PostParams::default(), &binding).await.expect("it is created");
}

/// Creates a token of a service account.
pub(crate) async fn token(namespace: &Namespace, account: &str) -> String {
    let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let accounts = namespace.api::<ServiceAccount>();
    let made = accounts.create_token_request(account, &PostParams::default(), &request).await;
    made.expect("a token").status.expect("a token").token
}

/// Writes the testbed's kubeconfig with another token into this folder.
pub(crate) fn kubeconfig(kubernetes: &Kubernetes, folder: &tempfile::TempDir, token: &str) -> PathBuf {
    kubeconfig_of(kubernetes, folder, &json!({"token": token}))
}

/// Writes the testbed's kubeconfig with these credentials.
pub(crate) fn kubeconfig_of(kubernetes: &Kubernetes, folder: &tempfile::TempDir, who: &Value) -> PathBuf {
    let text = std::fs::read_to_string(kubernetes.kubeconfig()).expect("the kubeconfig");
    let mut config: Value = serde_saphyr::from_str(&text).expect("YAML");
    for user in config["users"].as_array_mut().expect("users") {
        user["user"] = who.clone();
    }
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, config.to_string()).expect("written");
    file
}

/// Returns the token of the testbed's admin.
pub(crate) fn admin_token(kubernetes: &Kubernetes) -> String {
    let text = std::fs::read_to_string(kubernetes.kubeconfig()).expect("the kubeconfig");
    let config: Value = serde_saphyr::from_str(&text).expect("YAML");
    config["users"][0]["user"]["token"].as_str().expect("a token").to_owned()
}
