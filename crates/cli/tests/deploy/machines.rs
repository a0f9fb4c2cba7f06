//! Machine types with the rights of the chart.

use std::net::TcpListener;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use muster_machines::decide::registration::priority_class;
use muster_machines::types::crds;
use muster_testkit::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use crate::machine_objects::{GUESTS, General, NODE};
use crate::release;
use crate::render::{RELEASE, objects, template_for, template_with, the};
use crate::server::{Server, TIMEOUT, refused};

const MACHINES: &str = "machines.enabled=true";

#[tokio::test]
async fn without_machines_the_chart_has_no_objects_for_them() {
    let (Some(without), Some(with)) = (objects("here", &[]).await, objects("here", &[MACHINES]).await) else {
        return;
    };
    let text = Value::from(without).to_string();
    for word in ["webhook", "imperator", "PriorityClass", "admissionregistration"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    let container = &the(&with, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].to_string();
    assert!(arguments.contains("--webhook-service=here/m-muster-webhook"), "{arguments}");
    let services: Vec<&Value> = with
        .iter()
        .filter(|object| object["kind"] == "Service")
        .map(|object| &object["metadata"]["name"])
        .collect();
    assert!(services.contains(&&json!("m-muster-webhook")), "{services:?}");
}

#[tokio::test]
async fn machines_need_a_kubernetes_with_scheduling_gates() {
    let Some(old) = template_for("1.29.9", "here", &[MACHINES]).await else { return };
    let message = String::from_utf8_lossy(&old.stderr).into_owned();
    assert!(!old.status.success() && message.contains("machines need 1.30 or later"), "{message}");
    for (version, values) in [("1.29.9", &[][..]), ("1.30.0", &[MACHINES])] {
        let output = template_for(version, "here", values).await.expect("helm");
        assert!(output.status.success(), "{version}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test]
async fn the_namespace_of_machines_may_exist_already() {
    let Some(with) = objects("here", &[MACHINES]).await else { return };
    assert_eq!(the(&with, "Namespace")["metadata"]["name"], "imperator-system");
    let without = objects("here", &[MACHINES, "machines.createNamespace=false"]).await.expect("objects");
    assert!(!without.iter().any(|object| object["kind"] == "Namespace"));
    the(&without, "PriorityClass");
}

/// Returns whether helm renders the namespace of machines and the class of guests for this Kubernetes. It does not install:
/// the testbed's API server does not report the version that the chart requires.
async fn rendered(kubeconfig: &str, namespace: &str) -> Option<[bool; 2]> {
    let values = ["--dry-run=server", "--kubeconfig", kubeconfig];
    let output = template_with(&values, namespace, &[MACHINES]).await?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    Some(["kind: Namespace", "kind: PriorityClass"].map(|kind| text.contains(kind)))
}

#[tokio::test]
async fn the_chart_keeps_its_own_namespace_and_class_and_does_not_take_over_others() {
    let Some(kubernetes) = muster_testkit::own_kubernetes().await else { return };
    let client = kubernetes.client();
    let kubeconfig = kubernetes.kubeconfig().to_str().expect("a plain path");
    let Some(missing) = rendered(kubeconfig, "here").await else { return };
    assert_eq!(missing, [true, true]);
    // A server that was started without the chart has created both.
    let theirs = json!({"metadata": {"name": "imperator-system"}});
    let theirs: Namespace = serde_json::from_value(theirs).expect("a namespace");
    let namespaces = Api::<Namespace>::all(client.clone());
    namespaces.create(&PostParams::default(), &theirs).await.expect("a namespace");
    let classes = Api::<PriorityClass>::all(client.clone());
    classes.create(&PostParams::default(), &priority_class()).await.expect("a class");
    assert_eq!(rendered(kubeconfig, "here").await, Some([false, false]));
    // Helm would delete what it created and no longer renders.
    let owner = json!({"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": "here"});
    let owned = Patch::Merge(json!({"metadata": {"annotations": owner}}));
    namespaces.patch("imperator-system", &PatchParams::default(), &owned).await.expect("a namespace");
    classes.patch("muster-guest", &PatchParams::default(), &owned).await.expect("a class");
    assert_eq!(rendered(kubeconfig, "here").await, Some([true, true]));
    assert_eq!(rendered(kubeconfig, "elsewhere").await, Some([false, false]));
}

#[tokio::test]
async fn a_webhook_address_that_is_in_use_is_named_with_its_setting() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = kubernetes.kubeconfig().to_str().expect("a plain path");
    let arguments = ["--kubeconfig", kubeconfig, "--webhook-listen", &address];
    let (_, message) = refused(&folder, &arguments).await;
    assert!(message.contains(&format!("webhook_listen is {address}: ")), "{message}");
    assert!(message.contains("choose another address"), "{message}");
}

#[tokio::test]
async fn the_rights_of_the_chart_are_enough_for_machines() {
    let Some(kubernetes) = muster_testkit::own_kubernetes().await else { return };
    let client = kubernetes.client();
    let namespace = kubernetes.namespace().await;
    let Some(mut objects) = objects(namespace.name(), &[MACHINES]).await else { return };
    let account = the(&objects, "ServiceAccount")["metadata"]["name"].as_str().expect("a name").to_owned();
    let kinds = ["Deployment", "PersistentVolumeClaim", "NetworkPolicy", "PodDisruptionBudget"];
    objects.retain(|object| !kinds.contains(&object["kind"].as_str().unwrap_or_default()));
    for definition in crds() {
        Api::all(client.clone()).create(&PostParams::default(), &definition).await.expect("a definition");
    }
    release::apply(&kubernetes, &namespace, &objects).await;
    let token = release::token(&namespace, &account).await;
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = release::kubeconfig(&kubernetes, &folder, &token);
    let kubeconfig = kubeconfig.to_str().expect("a plain path").to_owned();
    let server =
        Server::start(folder, &["--kubeconfig", &kubeconfig, "--webhook-listen", "127.0.0.1:0"]).await;
    // Without a registration Machines and guests are accepted unseen.
    eventually("the webhook answers", TIMEOUT, async || {
        let (status, body) = server.call(Method::GET, "/readyz", None).await;
        if status == 200 { Ok(()) } else { Err(body) }
    })
    .await;

    let general = General::create(client.clone(), 1).await;
    general.wait_for_counts(json!({"maximum": 1, "reserved": 1, "used": 0, "waiting": 0})).await;
    general.add_guest().await;
    general.wait_for_counts(json!({"maximum": 1, "reserved": 0, "used": 1, "waiting": 0})).await;
    let guest = Api::<Pod>::namespaced(client.clone(), GUESTS).get("ann").await.expect("a guest");
    let spec = guest.spec.expect("a spec");
    assert_eq!((spec.priority_class_name.as_deref(), spec.priority), (Some("muster-guest"), Some(1)));
    assert_eq!(spec.node_name.as_deref(), Some(NODE));

    // Deletions are cleaned up with the same rights.
    general.machines.delete("general", &DeleteParams::default()).await.expect("it is deleted");
    eventually("the node is as it was", TIMEOUT, async || {
        let node = Api::<Node>::all(client.clone()).get(NODE).await.expect("a node");
        let text = json!([node.metadata.labels, node.metadata.annotations, node.spec]).to_string();
        if text.contains("imperator.tenzen-y.io") { Err(text) } else { Ok(()) }
    })
    .await;
    drop(server);
}
