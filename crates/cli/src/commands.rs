//! The commands that call a server, one file each, and what they share: flags, finding a cluster, submitting a change.

pub(crate) mod action;
pub(crate) mod actions;
pub(crate) mod app;
pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod create;
pub(crate) mod delete;
mod deleted;
mod deleted_with_app;
pub(crate) mod describe;
pub(crate) mod down;
pub(crate) mod env;
pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod framework;
pub(crate) mod get;
pub(crate) mod image;
pub(crate) mod job;
pub(crate) mod login;
pub(crate) mod logs;
pub(crate) mod machines;
pub(crate) mod man;
pub(crate) mod nodes;
mod one_cluster;
mod packages;
mod program;
mod python;
mod python_version;
mod reachability;
pub(crate) mod restart;
pub(crate) mod run;
pub(crate) mod scale;
pub(crate) mod select;
pub(crate) mod shape;
pub(crate) mod top;
pub(crate) mod update;
pub(crate) mod usage;
pub(crate) mod wait_for;
mod watch;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_core::ids::InstanceId;
use muster_proto::v1alpha2::{
    Action, Cluster, GetClusterRequest, GetEnvironmentRequest, GetEnvironmentResponse, ListActionsRequest,
};
use tonic::{Response, Status};
use uuid::Uuid;

use crate::complete;
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::{self, FormatFlag};
use crate::wait::{AwaitedAction, Deadline, WaitFlags};

/// Page size of list requests; all pages are read.
const PAGE: i32 = 500;

/// The namespace that is used if none is given and the caller has none of its own.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// The flag `--namespace`.
#[derive(Debug, Parser)]
pub(crate) struct NamespaceFlag {
    /// The namespace [default: the namespace of your project, see muster whoami]
    #[arg(short = 'n', long, env = "MUSTER_NAMESPACE", value_name = "NS", add = complete::namespaces())]
    namespace: Option<String>,
}

impl NamespaceFlag {
    /// Sets the namespace if none is given and `other` is not empty.
    pub(crate) fn or(&mut self, other: &str) {
        let is_given = self.namespace.as_ref().is_some_and(|given| !given.is_empty());
        if !is_given && !other.is_empty() {
            self.namespace = Some(other.to_owned());
        }
    }

    /// Returns the given namespace, else the caller's own.
    pub(crate) async fn resolve(&self, client: &mut Client) -> Result<String, Failure> {
        // An empty environment variable counts as not set.
        match self.namespace.as_ref().filter(|namespace| !namespace.is_empty()) {
            Some(given) => Ok(given.clone()),
            None => client.own_namespace().await,
        }
    }
}

/// Flags that select one of several clusters with the same name.
#[derive(Debug, Default, Parser)]
pub(crate) struct AmongFlags {
    /// Select by framework if several clusters have this name
    #[arg(long, value_name = "FRAMEWORK")]
    framework: Option<String>,
    /// Select by provider if several clusters have this name
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
}

impl AmongFlags {
    /// Selects the cluster of this provider.
    fn at(provider: &str) -> Self {
        Self { provider: Some(provider.to_owned()).filter(|provider| !provider.is_empty()), framework: None }
    }

    /// Returns true if one of the flags is given.
    fn are_given(&self) -> bool {
        self.framework.is_some() || self.provider.is_some()
    }

    /// Returns framework and provider as request fields; empty means any.
    fn request_fields(&self) -> (String, String) {
        (self.framework.clone().unwrap_or_default(), self.provider.clone().unwrap_or_default())
    }
}

/// Name of a cluster, with the flags that find it and its server.
#[derive(Debug, Parser)]
pub(crate) struct ClusterFlags {
    /// Name of the cluster
    #[arg(add = complete::clusters())]
    name: String,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    among: AmongFlags,
    #[command(flatten)]
    server: ServerFlags,
}

impl ClusterFlags {
    /// Connects to the server and finds the cluster.
    async fn find(&self) -> Result<(Client, Cluster)> {
        let mut client = self.server.connect_to_existing().await?;
        let namespace = self.namespace.resolve(&mut client).await?;
        let cluster = find(&mut client, &namespace, &self.name, &self.among).await?;
        Ok((client, cluster))
    }
}

/// Parses a flag value that must be 0 or greater.
fn parse_count(text: &str) -> Result<i32, String> {
    let number = text.parse::<i32>().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| "must be a number, 0 or greater".to_owned())
}

/// Returns a new request id: the server executes repeated requests with the same id only once.
fn request_id() -> String {
    Uuid::new_v4().to_string()
}

/// Finds the cluster of this name; the error for a deleted one says when and by whom.
async fn find(
    client: &mut Client,
    namespace: &str,
    name: &str,
    among: &AmongFlags,
) -> Result<Cluster, Failure> {
    let (framework, provider) = among.request_fields();
    let request = GetClusterRequest {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        framework,
        provider,
        ..GetClusterRequest::default()
    };
    match client.retry(async |client| client.clusters().get_cluster(request.clone()).await).await {
        Ok(answer) => Ok(answer.into_inner()),
        Err(failure) if failure.exit == Exit::NotFound => {
            Err(deleted::explain(client, namespace, name, among, failure).await)
        }
        Err(failure) => Err(failure),
    }
}

/// Returns the latest action on a cluster that has not ended.
async fn latest_open_action(client: &mut Client, cluster_id: &str) -> Result<Option<Action>, Failure> {
    let request = ListActionsRequest {
        target: cluster_id.to_owned(),
        sort_by: "created_at".to_owned(),
        ..ListActionsRequest::default()
    };
    let call = async |client: &Client| client.actions().list_actions(request.clone()).await;
    let actions = client.retry(call).await?.into_inner().actions;
    Ok(actions.into_iter().rfind(|action| action.ended_at.is_none()))
}

/// Finds the cluster of this name; `None` if there is none.
async fn find_optional(
    client: &mut Client,
    namespace: &str,
    name: &str,
    among: &AmongFlags,
) -> Result<Option<Cluster>, Failure> {
    match find(client, namespace, name, among).await {
        Ok(cluster) => Ok(Some(cluster)),
        Err(failure) if failure.exit == Exit::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Fetches the environment variables for client programs of this cluster.
async fn environment(client: &mut Client, id: &str) -> Result<GetEnvironmentResponse, Failure> {
    let request = GetEnvironmentRequest { id: id.to_owned(), ..GetEnvironmentRequest::default() };
    let call = async |client: &Client| client.clusters().get_environment(request.clone()).await;
    Ok(client.retry(call).await?.into_inner())
}

/// Fetches a cluster by id; works for deleted clusters too.
async fn find_by_id(client: &mut Client, id: &str) -> Result<Cluster, Failure> {
    let request = GetClusterRequest { id: id.to_owned(), ..GetClusterRequest::default() };
    let answer = client.retry(async |client| client.clusters().get_cluster(request.clone()).await).await?;
    Ok(answer.into_inner())
}

/// Reads all pages of a list.
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

/// Flags of commands that change a cluster: selection, waiting, and output format.
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

/// A cluster that was found and is about to be changed.
struct PendingChange {
    client: Client,
    cluster: Cluster,
    deadline: Deadline,
    flags: ChangeFlags,
}

impl ChangeFlags {
    /// Finds the cluster of this name and starts the time of `--timeout`.
    async fn find(self, name: &str) -> Result<PendingChange> {
        let deadline = self.wait.deadline();
        let mut client = deadline.limit(self.server.connect_to_existing()).await?;
        let namespace = self.namespace.resolve(&mut client).await?;
        let cluster = find(&mut client, &namespace, name, &self.among).await?;
        Ok(PendingChange { client, cluster, deadline, flags: self })
    }
}

impl PendingChange {
    /// Submits the change, waits unless `--no-wait` is set, and prints the cluster.
    async fn carry_out(
        mut self,
        change: impl AsyncFn(&Client) -> Result<Response<Cluster>, Status>,
    ) -> Result<ExitCode> {
        let ChangeFlags { wait, format, .. } = &self.flags;
        carry_out(&mut self.client, change, wait.no_wait, self.deadline, format).await
    }
}

/// Submits a change of a cluster, waits unless `no_wait` is set, and prints the cluster.
async fn carry_out(
    client: &mut Client,
    change: impl AsyncFn(&Client) -> Result<Response<Cluster>, Status>,
    no_wait: bool,
    deadline: Deadline,
    format: &FormatFlag,
) -> Result<ExitCode> {
    let (mut cluster, action) = deadline.submit(client, change).await?;
    let subject = AwaitedAction::new(&cluster, action);
    if no_wait {
        subject.print_accepted();
    } else {
        subject.wait_until_reached(client, deadline).await?;
        cluster = find_by_id(client, &subject.cluster_id).await?;
    }
    format::one(format.format, &cluster, |wide| one_cluster::cluster(&cluster, &[], wide))
}

/// Returns true if this provider instance (`kubernetes:<uid>`) is on Kubernetes.
fn is_on_kubernetes(instance: &str) -> bool {
    let Ok(instance) = instance.parse::<InstanceId>();
    instance.provider() == "kubernetes"
}

/// Returns true if programs can use a cluster in this state.
fn is_usable(state: &str) -> bool {
    matches!(state, "ACTIVE" | "WARNING" | "RESIZING")
}

/// Returns true for states in which a cluster is being created, repaired or deleted, or is broken.
fn is_incomplete(state: &str) -> bool {
    matches!(state, "INIT" | "CREATING" | "DELETING" | "RECOVERING" | "CRITICAL" | "ERROR")
}

/// Converts a length to the integer type of the API; `None` if it does not fit.
fn count(length: usize) -> Option<i32> {
    i32::try_from(length).ok()
}
