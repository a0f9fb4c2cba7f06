//! Readiness: the server is not ready before it knows the installed operators.

use muster_engine::ports::provider::Provider as _;
use muster_kube::{Kubernetes, KubernetesOptions};
use muster_testkit::{ClosedPort, Operator, eventually};

use crate::harness::{Harness, PATIENCE};

/// A kubeconfig of an API server that does not answer.
fn unreachable_kubeconfig(closed: &ClosedPort) -> tempfile::NamedTempFile {
    let free = closed.address();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let config = format!(
        "{{apiVersion: v1, kind: Config, current-context: x, clusters: [{{name: x, cluster: {{server: 'http://{free}'}}}}], \
         users: [{{name: x, user: {{}}}}], contexts: [{{name: x, context: {{cluster: x, user: x}}}}]}}"
    );
    std::fs::write(file.path(), config).expect("written");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_not_ready_before_it_knows_the_installed_operators() {
    let closed = ClosedPort::reserve();
    let kubeconfig = unreachable_kubeconfig(&closed);
    let options = KubernetesOptions {
        kubeconfig: Some(kubeconfig.path().to_owned()),
        instance_id: Some("one".to_owned()),
        ..KubernetesOptions::default()
    };
    let unreachable = Kubernetes::connect(options).await.unwrap();
    let words = "the installed operators are not known yet";
    eventually("the reason why they are not known", PATIENCE, async || {
        let why = unreachable.readiness().unwrap_err();
        assert!(why.starts_with(words), "{why}");
        if why.contains("Kubernetes API unreachable") { Ok(()) } else { Err(why) }
    })
    .await;
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    eventually("a server that is ready", PATIENCE, async || {
        harness.engine.readiness().inspect_err(|why| assert!(why.starts_with(words), "{why}"))
    })
    .await;
}
