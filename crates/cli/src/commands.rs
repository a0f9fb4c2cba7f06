//! The commands over the wire, one file each.

pub(crate) mod action;
pub(crate) mod actions;
pub(crate) mod completion;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod down;
pub(crate) mod env;
pub(crate) mod events;
pub(crate) mod framework;
pub(crate) mod get;
pub(crate) mod logs;
pub(crate) mod nodes;
mod python;
pub(crate) mod restart;
pub(crate) mod scale;
mod watch;

use anyhow::Result;
use clap::Parser;
use muster_proto::v1alpha2::{Cluster, GetClusterRequest};
use uuid::Uuid;

use crate::connect::Client;
use crate::failure::Failure;
use crate::output::say;
use crate::wait::{Deadline, Subject};

/// How many rows are asked for at a time; all pages are read.
const PAGE: i32 = 500;

/// Where the cluster is.
#[derive(Debug, Parser)]
pub(crate) struct NamespaceFlag {
    /// The namespace of the cluster
    #[arg(short = 'n', long, env = "MUSTER_NAMESPACE", value_name = "NS", default_value = "default")]
    pub(crate) namespace: String,
}

/// A name for a request, under which it is done only once.
fn request_id() -> String {
    Uuid::new_v4().to_string()
}

/// The cluster of this name.
async fn find(client: &mut Client, namespace: &str, name: &str) -> Result<Cluster, Failure> {
    let request = GetClusterRequest {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
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

/// Waits for an accepted change if that is wanted, and gives the cluster as it then is.
async fn finish(
    client: &mut Client,
    cluster: Cluster,
    action: String,
    no_wait: bool,
    deadline: Deadline,
) -> Result<Cluster, Failure> {
    let subject = Subject::new(&cluster, action);
    if no_wait {
        let (id, name) = (&subject.action_id, &subject.name);
        say!("{name}: accepted as action {id}; `muster action show {id}` says how far it is");
        return Ok(cluster);
    }
    subject.reached(client, deadline).await?;
    find_by_id(client, &subject.cluster_id).await
}

/// A number as the wire counts; no list is longer.
fn count(length: usize) -> Option<i32> {
    i32::try_from(length).ok()
}
