//! Drivers on Kubernetes: `muster run` in pods, whose kubelet the tests simulate.

use std::process::Command;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DeleteParams;
use muster_testkit::{Process, eventually};

use crate::app_harness::{AppHarness, SHORT_GRACE, text};
use crate::harness::{Harness, output_of};
use crate::server::TIMEOUT;

impl AppHarness {
    /// Starts the launcher of a driver pod, in place of a kubelet.
    fn driver(&self, pod: &str) -> Process {
        let script = "echo begun $MUSTER_CLUSTER; exec sleep 600";
        let own = ["--framework", "spark", "--workers", "0", "--", "sh", "-c", script];
        Process::spawn("muster", &self.launcher(pod, &own))
    }

    fn launcher(&self, pod: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
        command.arg("run").args(arguments);
        command.env("MUSTER_DATA_DIR", self.server.data()).env("MUSTER_NO_AUTOSTART", "1");
        command.env("POD_NAME", pod).env("POD_NAMESPACE", self.harness.namespace.name());
        command.env_remove("MUSTER_SERVER").env_remove("APP_EXIT");
        command
    }
}

#[tokio::test]
async fn the_next_driver_of_an_app_uses_the_cluster_of_the_last_one() {
    let Some(harness) = AppHarness::open().await else { return };
    harness.deployment("bob").await;
    let pod = harness.pod_of("bob").await;
    let mut driver = harness.driver(&pod);
    let begun = driver.wait_for_line("begun cluster-", TIMEOUT).await;
    let cluster = begun.trim().rsplit(' ').next().expect("a name").to_owned();
    assert!(driver.tail().contains("is unreachable from here"), "{}", driver.tail());
    // Its pod is evicted; another one will follow.
    driver.terminate();
    let status = driver.wait_for_exit(TIMEOUT).await;
    assert_eq!(status.code(), Some(143), "{}", driver.tail());
    driver.wait_for_line("driver replica count > 0", TIMEOUT).await;
    harness.assert_exists(&cluster);
    harness.end_pods().await;
    let next = eventually("another pod", TIMEOUT, async || {
        let next = harness.pod_of("bob").await;
        if next == pod { Err(next) } else { Ok(next) }
    })
    .await;
    let mut driver = harness.driver(&next);
    driver.wait_for_line(&format!("begun {cluster}"), TIMEOUT).await;
    assert!(driver.tail().contains(&format!("using stored cluster name {cluster}")), "{}", driver.tail());
    assert!(driver.tail().contains(&format!("Found cluster {cluster}")), "{}", driver.tail());
    // The app is scaled to 0: no driver follows.
    harness.scale("bob", 0).await;
    driver.terminate();
    driver.wait_for_exit(TIMEOUT).await;
    driver.wait_for_line(&format!("cluster \"{cluster}\" deleted"), TIMEOUT).await;
    harness.wait_until_deleted(&cluster).await;
    harness.close().await;
}

#[tokio::test]
async fn a_driver_whose_cluster_was_deleted_with_its_app_ends_quietly() {
    let Some(harness) = AppHarness::open().await else { return };
    harness.deployment("bob").await;
    let mut driver = harness.driver(&harness.pod_of("bob").await);
    let begun = driver.wait_for_line("begun cluster-", TIMEOUT).await;
    let cluster = begun.trim().rsplit(' ').next().expect("a name").to_owned();
    let deployments = harness.harness.namespace.api::<Deployment>();
    deployments.delete("bob", &DeleteParams::background()).await.expect("it is deleted");
    harness.end_pods().await;
    harness.wait_until_deleted(&cluster).await;
    driver.terminate();
    driver.wait_for_exit(TIMEOUT).await;
    driver.wait_for_line(&format!("cluster \"{cluster}\" deleted"), TIMEOUT).await;
    assert!(!driver.tail().contains("not deleted"), "{}", driver.tail());
    harness.close().await;
}

#[tokio::test]
async fn concurrent_drivers_of_one_app_share_a_cluster() {
    let Some(harness) = AppHarness::open().await else { return };
    harness.deployment("bob").await;
    let pod = harness.pod_of("bob").await;
    let (mut one, mut two) = (harness.driver(&pod), harness.driver(&pod));
    let line = one.wait_for_line("begun cluster-", TIMEOUT).await;
    let same = two.wait_for_line("begun cluster-", TIMEOUT).await;
    assert_eq!(line, same);
    for driver in [&mut one, &mut two] {
        driver.terminate();
        driver.wait_for_exit(TIMEOUT).await;
    }
    harness.close().await;
}

#[tokio::test]
async fn a_driver_without_a_name_ignores_recorded_names_that_were_never_used() {
    let Some(harness) = AppHarness::open().await else { return };
    harness.deployment("ann").await;
    harness.deployment("bob").await;
    let pod = harness.pod_of("bob").await;
    output_of(&harness.create("hers", &["--app", "ann", "--ephemeral"]));
    output_of(&harness.create("shared", &[]));
    let run = |more: &[&str]| {
        let own = ["--framework", "spark", "--workers", "0", "--wait", "1s"];
        harness.launcher(&pod, &[&own, more, &["--", "true"]].concat()).output().expect("the binary runs")
    };
    let refused = run(&["--cluster", "hers"]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused));
    let invalid = run(&["--cluster", "Bad_Name"]);
    assert_eq!(invalid.status.code(), Some(2), "{}", text(&invalid));
    // A cluster that it is attached to is not the cluster of its drivers, nor is one that it was detached from.
    output_of(&harness.muster(&["app", "attach", "deploy/bob", "--cluster", "shared"]));
    let attached = run(&[]);
    assert_eq!(attached.status.code(), Some(0), "{}", text(&attached));
    assert!(text(&attached).contains("Didn't find cluster cluster-"), "{}", text(&attached));
    output_of(&harness.muster(&["app", "detach", "deploy/bob", "--cluster", "shared"]));
    let own = run(&[]);
    assert_eq!(own.status.code(), Some(0), "{}", text(&own));
    assert!(text(&own).contains("Didn't find cluster cluster-"), "{}", text(&own));
    // A shared cluster that a driver created is used by the next one.
    let first = run(&["--shared"]);
    let next = run(&["--shared"]);
    assert!(text(&first).contains("creating shared cluster"), "{}", text(&first));
    assert!(text(&next).contains("Found cluster cluster-"), "{}", text(&next));
    harness.close().await;
}

#[tokio::test]
async fn a_driver_keeps_its_operator_cluster_while_it_runs() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(SHORT_GRACE).await;
    let harness = AppHarness { harness, server };
    harness.deployment("bob").await;
    let pod = harness.pod_of("bob").await;
    let script = "echo begun $MUSTER_CLUSTER at $RAY_ADDRESS; exit 7";
    let own = ["--framework", "ray", "--workers", "1", "--", "sh", "-c", script];
    let ran = harness.launcher(&pod, &own).output().expect("the binary runs");
    assert_eq!(ran.status.code(), Some(7), "{}", text(&ran));
    let begun = String::from_utf8_lossy(&ran.stdout).into_owned();
    let [_, cluster, _, address] = begun.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{begun}")
    };
    assert_eq!(address, format!("ray://{cluster}-head-svc.{}.svc:10001", harness.harness.namespace.name()));
    // The operator of a busy machine may take longer than the launcher waits.
    let is_accepted = |words: &str| text(&ran).contains(words);
    let deleted = format!("cluster \"{cluster}\" deleted");
    assert!(is_accepted(&deleted) || is_accepted("the server continues the deletion"), "{}", text(&ran));
    harness.wait_until_deleted(cluster).await;
    assert_eq!(harness.harness.desired_workers().await, []);
    harness.close().await;
}
