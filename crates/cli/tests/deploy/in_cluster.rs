//! The server in a pod: it finds Kubernetes by environment variables, and its account in the mounted files.

use std::path::Path;
use std::process::Command;

use muster_testkit::Kubernetes;
use serde_json::Value;

use crate::harness::{Harness, of_framework};
use crate::server::{Server, refused};

/// Where the files of a pod's account are mounted; the Kubernetes client uses no other folder.
const MOUNTED: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Runs a command in its own mount namespace, where the account's files are mounted from a folder.
const IN_A_POD: &str = r#"mount -t tmpfs muster-test "$(realpath /var/run)" && mkdir -p "$1" && cp "$2"/token "$2"/namespace "$1" \
    && base64 -d "$2"/ca.base64 > "$1"/ca.crt && shift 2 && exec "$@""#;

/// Builds a command that runs the binary as in a pod; `None` if mounting is not permitted, and the test is skipped.
fn in_a_pod(kubernetes: &Kubernetes, account: &Path) -> Option<Command> {
    let tried = Command::new("unshare").args(["--mount", "true"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        muster_testkit::skip("a mount namespace cannot be made");
        return None;
    }
    let text = std::fs::read_to_string(kubernetes.kubeconfig()).expect("the kubeconfig");
    let config: Value = serde_saphyr::from_str(&text).expect("YAML");
    let cluster = &config["clusters"][0]["cluster"];
    let authority = cluster["certificate-authority-data"].as_str().expect("a certificate");
    std::fs::write(account.join("ca.base64"), authority).expect("written");
    let address = cluster["server"].as_str().and_then(|server| server.strip_prefix("https://"));
    let (host, port) = address.and_then(|address| address.split_once(':')).expect("an address");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", IN_A_POD, "sh", MOUNTED]).arg(account);
    command.arg(env!("CARGO_BIN_EXE_muster"));
    command.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", port);
    Some(command)
}

#[tokio::test]
async fn a_server_in_a_pod_finds_kubernetes_and_its_account() {
    let opened = Harness::open_with(
        false,
        |_| {},
        async |kubernetes, namespace, token| {
            let (folder, account) =
                (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
            let files = [("token", token), ("namespace", namespace.name())];
            for (name, text) in files {
                std::fs::write(account.path().join(name), text).expect("written");
            }
            let command = in_a_pod(kubernetes, account.path())?;
            let arguments = ["--in-cluster", "--namespace", namespace.name()];
            Some(Server::start_by(command, folder, &arguments).await)
        },
    );
    let Some(harness) = opened.await else { return };
    let made = harness.create(&of_framework("ray", 1)).await;
    assert_eq!((&made["provider"], &made["state"]), (&"kubernetes".into(), &"ACTIVE".into()), "{made}");
    harness.delete("fred").await;
}

#[tokio::test]
async fn outside_of_a_pod_there_is_no_account() {
    let folder = tempfile::tempdir().unwrap();
    let (code, printed) = refused(&folder, &["--in-cluster"]).await;
    assert_eq!(code, Some(1), "{printed}");
    assert!(
        printed.contains("no service account of a pod found") && printed.contains("use --kubeconfig"),
        "{printed}"
    );
}
