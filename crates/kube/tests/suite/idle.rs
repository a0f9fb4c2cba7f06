//! Idle clusters, as their framework reports them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Stdio};

use muster_core::cluster::{Cluster, ClusterStatus, Framework};
use muster_core::limits::Limits;
use muster_core::time::TimeSpan;
use muster_testkit::{Operator, Python};
use tempfile::TempDir;

use crate::harness::Harness;

/// The address of this test's scheduler, at the ports of every scheduler on Kubernetes.
const SCHEDULER_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 66, 0, 1);

/// A real scheduler, which is killed when this value is dropped, before its folder is removed.
struct Scheduler {
    process: Child,
    _folder: TempDir,
}

impl Scheduler {
    fn start(python: &Python) -> Self {
        let mut command = python.command();
        command.args([
            "-m",
            "distributed.cli.dask_scheduler",
            "--host",
            &SCHEDULER_ADDRESS.to_string(),
            "--port",
            "8786",
        ]);
        command.args(["--dashboard-address", &format!("{SCHEDULER_ADDRESS}:8787"), "--no-jupyter"]);
        let routes = r#"["distributed.http.health","distributed.http.scheduler.api"]"#;
        command.env("DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES", routes);
        let folder = tempfile::tempdir().expect("a temporary folder");
        command.env("DASK_TEMPORARY_DIRECTORY", folder.path());
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a scheduler");
        Self { process, _folder: folder }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // These fail if the process has ended already, which is fine.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_deleted_once_its_scheduler_reports_that_it_is_idle() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let Some(_) = kubernetes.operator(Operator::Dask).await else { return };
    let Some(python) = muster_testkit::python("dask").await else { return };
    let addresses = |namespace: &str| {
        HashMap::from([(format!("fred-scheduler.{namespace}.svc"), IpAddr::from(SCHEDULER_ADDRESS))])
    };
    let Some(harness) = Harness::with_addresses(kubernetes, addresses).await else { return };
    let (cluster, profile) = harness.cluster_request(Framework::Dask, 1);
    let limits = Limits { idle_timeout: Some(TimeSpan::from_secs(1)), max_lifetime: None };
    let action = harness.try_create(&(Cluster { limits, ..cluster.clone() }, profile)).await.unwrap();
    assert_eq!(harness.ended(action).await.status_reason, "Cluster creation succeeded.");

    // Without an answer of the scheduler, the activity is unknown, and the cluster counts as used.
    assert_eq!(harness.cluster(cluster.id).await.status, ClusterStatus::Active);
    let _scheduler = Scheduler::start(&python);
    let gone = async || Some(harness.cluster(cluster.id).await).filter(|row| row.deleted_at.is_some());
    let gone = harness.until("stopped as idle", gone).await;
    assert!(gone.status_reason.contains("deletion succeeded"), "{}", gone.status_reason);
    assert_eq!(harness.events(cluster.id, "IdleTimeout").await.len(), 1);
}
