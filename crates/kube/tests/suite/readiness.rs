//! Whether it is known what there is to work with.

use muster_engine::ports::provider::Provider as _;
use muster_kube::{Kubernetes, Options};
use muster_testkit::{ClosedPort, Operator, eventually};

use crate::harness::{Harness, PATIENCE};

/// A kubeconfig of a server that does not answer.
fn of_nobody(closed: &ClosedPort) -> tempfile::NamedTempFile {
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
async fn a_server_is_not_ready_before_it_knows_which_operators_there_are() {
    let closed = ClosedPort::reserve();
    let kubeconfig = of_nobody(&closed);
    let options = Options {
        kubeconfig: Some(kubeconfig.path().to_owned()),
        instance_id: Some("one".to_owned()),
        ..Options::default()
    };
    let nobody = Kubernetes::connect(options).await.unwrap();
    let words = "it is not known yet which operators this Kubernetes has";
    eventually("the reason why it is not known", PATIENCE, async || {
        let why = nobody.readiness().unwrap_err();
        assert!(why.starts_with(words), "{why}");
        if why.contains("Kubernetes does not answer") { Ok(()) } else { Err(why) }
    })
    .await;
    let Some(harness) = Harness::with(Operator::KubeRay).await else { return };
    eventually("a server that is ready", PATIENCE, async || {
        harness.engine.readiness().inspect_err(|why| assert!(why.starts_with(words), "{why}"))
    })
    .await;
}
