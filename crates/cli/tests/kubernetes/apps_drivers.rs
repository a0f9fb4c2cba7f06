//! Drivers on Kubernetes: `muster run` as a pod runs it. The tests are the kubelet.

use std::process::Command;

use muster_testkit::{Process, eventually};

use crate::apps::{Bed, SHORT_GRACE, text};
use crate::harness::{Harness, said};
use crate::server::PATIENCE;

impl Bed {
    /// The launcher of a driver pod, which the test starts in the place of a kubelet.
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
    let Some(bed) = Bed::open().await else { return };
    bed.deployment("bob").await;
    let pod = bed.pod_of("bob").await;
    let mut driver = bed.driver(&pod);
    let begun = driver.wait_for_line("begun cluster-", PATIENCE).await;
    let cluster = begun.trim().rsplit(' ').next().expect("a name").to_owned();
    assert!(driver.tail().contains("cannot be reached from here"), "{}", driver.tail());
    // Its pod is evicted: another one will come.
    driver.terminate();
    let status = driver.wait_for_exit(PATIENCE).await;
    assert_eq!(status.code(), Some(143), "{}", driver.tail());
    driver.wait_for_line("driver replica count > 0", PATIENCE).await;
    bed.is_there(&cluster);
    bed.end_pods().await;
    let next = eventually("another pod", PATIENCE, async || {
        let next = bed.pod_of("bob").await;
        if next == pod { Err(next) } else { Ok(next) }
    })
    .await;
    let mut driver = bed.driver(&next);
    driver.wait_for_line(&format!("begun {cluster}"), PATIENCE).await;
    assert!(driver.tail().contains(&format!("using stored cluster name {cluster}")), "{}", driver.tail());
    assert!(driver.tail().contains(&format!("Found cluster {cluster}")), "{}", driver.tail());
    // The app is scaled down: no driver comes back.
    bed.scale("bob", 0).await;
    driver.terminate();
    driver.wait_for_exit(PATIENCE).await;
    driver.wait_for_line(&format!("cluster \"{cluster}\" deleted"), PATIENCE).await;
    bed.is_gone(&cluster).await;
    bed.close().await;
}

#[tokio::test]
async fn drivers_of_one_app_that_start_together_share_a_cluster() {
    let Some(bed) = Bed::open().await else { return };
    bed.deployment("bob").await;
    let pod = bed.pod_of("bob").await;
    let (mut one, mut two) = (bed.driver(&pod), bed.driver(&pod));
    let line = one.wait_for_line("begun cluster-", PATIENCE).await;
    let same = two.wait_for_line("begun cluster-", PATIENCE).await;
    assert_eq!(line, same);
    for driver in [&mut one, &mut two] {
        driver.terminate();
        driver.wait_for_exit(PATIENCE).await;
    }
    bed.close().await;
}

#[tokio::test]
async fn a_driver_without_a_name_is_not_bound_by_names_that_could_not_be_used() {
    let Some(bed) = Bed::open().await else { return };
    bed.deployment("ann").await;
    bed.deployment("bob").await;
    let pod = bed.pod_of("bob").await;
    said(&bed.create("hers", &["--app", "ann", "--ephemeral"]));
    said(&bed.create("shared", &[]));
    let run = |more: &[&str]| {
        let own = ["--framework", "spark", "--workers", "0", "--wait", "1s"];
        bed.launcher(&pod, &[&own, more, &["--", "true"]].concat()).output().expect("the binary runs")
    };
    let refused = run(&["--cluster", "hers"]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused));
    let invalid = run(&["--cluster", "Bad_Name"]);
    assert_eq!(invalid.status.code(), Some(2), "{}", text(&invalid));
    // One that it was attached to and has left is not its cluster any more.
    said(&bed.muster(&["app", "attach", "deploy/bob", "--cluster", "shared"]));
    said(&bed.muster(&["app", "detach", "deploy/bob", "--cluster", "shared"]));
    let own = run(&[]);
    assert_eq!(own.status.code(), Some(0), "{}", text(&own));
    assert!(text(&own).contains("Didn't find cluster cluster-"), "{}", text(&own));
    // A shared cluster that a driver made is used by the next one.
    let first = run(&["--shared"]);
    let next = run(&["--shared"]);
    assert!(text(&first).contains("creating shared cluster"), "{}", text(&first));
    assert!(text(&next).contains("Found cluster cluster-"), "{}", text(&next));
    bed.close().await;
}

#[tokio::test]
async fn a_driver_has_a_cluster_of_the_operator_for_as_long_as_it_runs() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(SHORT_GRACE).await;
    let bed = Bed { harness, server };
    bed.deployment("bob").await;
    let pod = bed.pod_of("bob").await;
    let script = "echo begun $MUSTER_CLUSTER at $RAY_ADDRESS; exit 7";
    let own = ["--framework", "ray", "--workers", "1", "--", "sh", "-c", script];
    let ran = bed.launcher(&pod, &own).output().expect("the binary runs");
    assert_eq!(ran.status.code(), Some(7), "{}", text(&ran));
    let begun = String::from_utf8_lossy(&ran.stdout).into_owned();
    let [_, cluster, _, address] = begun.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{begun}")
    };
    assert_eq!(address, format!("ray://{cluster}-head-svc.{}.svc:10001", bed.harness.namespace.name()));
    assert!(text(&ran).contains(&format!("cluster \"{cluster}\" deleted")), "{}", text(&ran));
    bed.is_gone(cluster).await;
    assert_eq!(bed.harness.asked_for().await, []);
    bed.close().await;
}
