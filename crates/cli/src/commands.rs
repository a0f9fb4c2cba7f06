//! The commands over the wire, one file each.

pub(crate) mod action;
pub(crate) mod actions;
pub(crate) mod app;
pub(crate) mod completion;
pub(crate) mod create;
pub(crate) mod delete;
mod describe;
pub(crate) mod down;
pub(crate) mod env;
pub(crate) mod events;
pub(crate) mod framework;
pub(crate) mod get;
pub(crate) mod image;
pub(crate) mod logs;
pub(crate) mod machines;
pub(crate) mod nodes;
mod python;
pub(crate) mod restart;
pub(crate) mod run;
pub(crate) mod scale;
pub(crate) mod shape;
pub(crate) mod update;
mod watch;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_core::ids::InstanceId;
use muster_proto::v1alpha2::{Cluster, GetClusterRequest};
use tonic::{Response, Status};
use uuid::Uuid;

use crate::connect::{Client, ServerFlags};
use crate::failure::Failure;
use crate::format::{self, FormatFlag};
use crate::wait::{Deadline, Subject, WaitFlags};

/// How many rows are asked for at a time; all pages are read.
const PAGE: i32 = 500;

/// The namespace of clusters where none is given.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// Where the cluster is.
#[derive(Debug, Parser)]
pub(crate) struct NamespaceFlag {
    /// The namespace of the cluster
    #[arg(short = 'n', long, env = "MUSTER_NAMESPACE", value_name = "NS", default_value = DEFAULT_NAMESPACE)]
    pub(crate) namespace: String,
}

/// Which one is meant where several clusters have the name.
#[derive(Debug, Default, Parser)]
pub(crate) struct AmongFlags {
    /// Which one, by its framework, where several have the name
    #[arg(long, value_name = "FRAMEWORK", requires = "name")]
    framework: Option<String>,
    /// Which one, by its provider, where several have the name
    #[arg(long, value_name = "PROVIDER", requires = "name")]
    provider: Option<String>,
}

impl AmongFlags {
    /// As requests say it.
    fn words(&self) -> (String, String) {
        (self.framework.clone().unwrap_or_default(), self.provider.clone().unwrap_or_default())
    }
}

/// A name for a request, under which it is done only once.
fn request_id() -> String {
    Uuid::new_v4().to_string()
}

/// The cluster of this name.
async fn find(
    client: &mut Client,
    namespace: &str,
    name: &str,
    among: &AmongFlags,
) -> Result<Cluster, Failure> {
    let (framework, provider) = among.words();
    let request = GetClusterRequest {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        framework,
        provider,
        ..GetClusterRequest::default()
    };
    let answer = client.ask(async |client| client.clusters().get_cluster(request.clone()).await).await?;
    Ok(answer.into_inner())
}

/// The cluster of this id, also if it is gone.
async fn find_by_id(client: &mut Client, id: &str) -> Result<Cluster, Failure> {
    let request = GetClusterRequest { id: id.to_owned(), ..GetClusterRequest::default() };
    let answer = client.ask(async |client| client.clusters().get_cluster(request.clone()).await).await?;
    Ok(answer.into_inner())
}

/// Every page of a list.
async fn pages<T>(
    mut page: impl AsyncFnMut(String) -> Result<(Vec<T>, String), Failure>,
) -> Result<Vec<T>, Failure> {
    let mut all = Vec::new();
    let mut token = String::new();
    loop {
        let (items, next) = page(token).await?;
        all.extend(items);
        if next.is_empty() {
            return Ok(all);
        }
        token = next;
    }
}

/// Which cluster of which server is changed, how that is waited for, and how the cluster is shown then.
#[derive(Debug, Parser)]
pub(crate) struct ChangeFlags {
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    among: AmongFlags,
    #[command(flatten)]
    wait: WaitFlags,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// A change of a cluster that was found.
struct ClusterChange {
    client: Client,
    cluster: Cluster,
    deadline: Deadline,
    flags: ChangeFlags,
}

impl ChangeFlags {
    /// Finds the cluster of this name; the time to wait begins.
    async fn find(self, name: &str) -> Result<ClusterChange> {
        let mut client = self.server.connect().await?;
        let deadline = self.wait.deadline();
        let cluster = find(&mut client, &self.namespace.namespace, name, &self.among).await?;
        Ok(ClusterChange { client, cluster, deadline, flags: self })
    }
}

impl ClusterChange {
    /// Asks for the change, waits for it if that is wanted, and shows the cluster as it then is.
    async fn carry_out(
        mut self,
        change: impl AsyncFn(&Client) -> Result<Response<Cluster>, Status>,
    ) -> Result<ExitCode> {
        let ChangeFlags { wait, format, .. } = &self.flags;
        carry_out(&mut self.client, change, wait.no_wait, self.deadline, format).await
    }
}

/// Asks for a change of a cluster, waits for it if that is wanted, and shows the cluster as it then is.
async fn carry_out(
    client: &mut Client,
    change: impl AsyncFn(&Client) -> Result<Response<Cluster>, Status>,
    no_wait: bool,
    deadline: Deadline,
    format: &FormatFlag,
) -> Result<ExitCode> {
    let (mut cluster, action) = deadline.submit(client, change).await?;
    let subject = Subject::new(&cluster, action);
    if no_wait {
        subject.tell_accepted();
    } else {
        subject.reached(client, deadline).await?;
        cluster = find_by_id(client, &subject.cluster_id).await?;
    }
    format::one(format.format, &cluster, |wide| describe::cluster(&cluster, &[], wide))
}

/// Whether this instance of a provider, as the wire writes it, is a Kubernetes.
fn is_on_kubernetes(instance: &str) -> bool {
    let Ok(instance) = instance.parse::<InstanceId>();
    instance.provider() == "kubernetes"
}

/// Whether programs can use a cluster in this state.
fn is_usable(state: &str) -> bool {
    matches!(state, "ACTIVE" | "WARNING" | "RESIZING")
}

/// A number as the wire counts; no list is longer.
fn count(length: usize) -> Option<i32> {
    i32::try_from(length).ok()
}
