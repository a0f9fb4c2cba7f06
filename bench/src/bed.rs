//! A Kubernetes of a benchmark's own, with the custom resources of an operator that does not run.

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

/// Requests to the API server at once.
pub const CONNECTIONS: usize = 16;

/// How often is looked whether rows are written.
const LOOK: Duration = Duration::from_millis(100);

/// How long Muster may take to write all that it finds.
const PATIENCE: Duration = Duration::from_mins(5);

/// A Kubernetes, which ends with this value.
pub struct Bed {
    own: OwnKubernetes,
    // After what lives in it.
    _folder: TempDir,
}

impl Bed {
    /// Starts one, on a real disk. With `fsync` its etcd waits for that, as it does where data is worth something.
    pub async fn start(fsync: bool, operator: Operator) -> Result<Self> {
        ensure!(
            env::var_os("MUSTER_TESTBED").is_some(),
            "MUSTER_TESTBED is not set: run `cargo xtask bench kubernetes`, or `cargo xtask testbed start` in another \
             terminal and export what it prints"
        );
        let folder = server::folder()?;
        let options = Options { fsync, dir: Some(folder.path().to_owned()) };
        let own = own_kubernetes_with(options).await.context("there is no Kubernetes to measure on")?;
        own.custom_resources(operator).await.context("the custom resources are not there")?;
        Ok(Self { own, _folder: folder })
    }

    /// A client.
    pub fn client(&self) -> Client {
        self.own.client()
    }

    /// Its kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.own.kubeconfig()
    }

    /// The process of the API server.
    pub async fn api_server(&self) -> Result<u32> {
        self.own.pid(Component::ApiServer).await.context("the API server does not run")
    }

    /// Adds a namespace.
    pub async fn add_namespace(&self, name: &str) -> Result<()> {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        Api::all(self.client()).create(&PostParams::default(), &namespace).await?;
        Ok(())
    }
}

/// Does something so many times, by its number, as many at once as there are connections.
pub async fn each<F, T>(count: u32, work: impl Fn(u32) -> F) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>>,
{
    futures::stream::iter((0..count).map(work)).buffer_unordered(CONNECTIONS).try_collect().await
}

/// Waits until a server's database has as many clusters and nodes as there are.
pub async fn written(data: &Path, clusters: u32, nodes: u32) -> Result<Duration> {
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
        tokio::time::sleep(LOOK).await;
    }
}
