//! A Kubernetes of one benchmark, with custom resources whose operator does not run.

use std::env;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};
use muster_testkit::{Component, Operator, Options, OwnKubernetes, own_kubernetes_with};
use serde_json::json;
use tempfile::TempDir;

use crate::{database, server};

/// The number of concurrent requests to the API server.
pub const CONNECTIONS: usize = 16;

/// The interval between checks of the written rows.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The longest time for Muster to write the rows of all discovered clusters.
const PATIENCE: Duration = Duration::from_mins(5);

/// A Kubernetes, which is stopped when this value is dropped.
pub struct Bed {
    own: OwnKubernetes,
    // Dropped after the programs that use it.
    _folder: TempDir,
}

impl Bed {
    /// Starts a Kubernetes on a real disk. With `fsync` its etcd syncs every write, as in production.
    pub async fn start(fsync: bool, operator: Operator) -> Result<Self> {
        let bed = Self::start_without_operator(fsync).await?;
        bed.own
            .custom_resources(operator)
            .await
            .context("the custom resource definitions are not established")?;
        Ok(bed)
    }

    /// Starts a Kubernetes without custom resources.
    pub async fn start_without_operator(fsync: bool) -> Result<Self> {
        ensure!(
            env::var_os("MUSTER_TESTBED").is_some(),
            "MUSTER_TESTBED is not set: run `cargo xtask bench kubernetes`, or `cargo xtask testbed start` in another \
             terminal and export what it prints"
        );
        let folder = server::folder()?;
        let options = Options { fsync, dir: Some(folder.path().to_owned()) };
        let own = own_kubernetes_with(options).await.context("there is no Kubernetes to measure on")?;
        Ok(Self { own, _folder: folder })
    }

    /// A client of the API server.
    pub fn client(&self) -> Client {
        self.own.client()
    }

    /// The path of the kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.own.kubeconfig()
    }

    /// The pid of the API server.
    pub async fn api_server(&self) -> Result<u32> {
        self.own.pid(Component::ApiServer).await.context("the API server does not run")
    }

    /// Stops the controllers, so that only the benchmark writes.
    pub async fn freeze_controllers(&self) {
        self.own.freeze(Component::ControllerManager).await;
        self.own.freeze(Component::Kwok).await;
    }

    /// Adds a namespace.
    pub async fn add_namespace(&self, name: &str) -> Result<()> {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        Api::all(self.client()).create(&PostParams::default(), &namespace).await?;
        Ok(())
    }
}

/// Runs `work` with the numbers below `count`, at most [`CONNECTIONS`] at a time.
pub async fn run_each<F, T>(count: u32, work: impl Fn(u32) -> F) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>>,
{
    futures::stream::iter((0..count).map(work)).buffer_unordered(CONNECTIONS).try_collect().await
}

/// Waits until a server's database has this many clusters and nodes.
pub async fn wait_for_rows(data: &Path, clusters: u32, nodes: u32) -> Result<Duration> {
    let rows = database::read(data)?;
    let count = |table: &str| rows.query_row(&format!("SELECT COUNT(*) FROM {table}"), [], |row| row.get(0));
    let started = Instant::now();
    loop {
        let (has_clusters, has_nodes): (u32, u32) = (count("clusters")?, count("nodes")?);
        if has_clusters >= clusters && has_nodes >= nodes {
            return Ok(started.elapsed());
        }
        ensure!(
            started.elapsed() < PATIENCE,
            "{has_clusters} of {clusters} clusters and {has_nodes} of {nodes} nodes have rows after {} s",
            PATIENCE.as_secs()
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
