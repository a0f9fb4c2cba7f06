//! Whether it is known what there is to work with.

use std::net::TcpListener;

use muster_engine::ports::provider::Provider as _;
use muster_kube::{Kubernetes, Options};
use muster_testkit::Operator;

use crate::fixture::Fixture;

/// A kubeconfig of a server that does not answer.
fn of_nobody() -> tempfile::NamedTempFile {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
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
    let kubeconfig = of_nobody();
    let options = Options {
        kubeconfig: Some(kubeconfig.path().to_owned()),
        instance_id: Some("one".to_owned()),
        ..Options::default()
    };
    let nobody = Kubernetes::connect(options).await.unwrap();
    let words = "it is not known yet which operators this Kubernetes has";
    loop {
        let why = nobody.readiness().unwrap_err();
        assert!(why.starts_with(words), "{why}");
        if why.contains("Kubernetes does not answer") {
            break;
        }
        tokio::task::yield_now().await;
    }
    let Some(house) = Fixture::with(Operator::KubeRay).await else { return };
    while let Err(why) = house.engine.readiness() {
        assert!(why.starts_with(words), "{why}");
        tokio::task::yield_now().await;
    }
}
