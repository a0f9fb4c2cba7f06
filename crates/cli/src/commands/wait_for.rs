//! `muster wait`: waits until a cluster is in a state.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use muster_core::cluster::ClusterStatus;
use muster_proto::v1alpha2::{Cluster, WatchClustersRequest};
use tokio::time::timeout;
use tonic::Status;

use super::{ClusterFlags, find, latest_open_action};
use crate::complete;
use crate::connect::Client;
use crate::failure::{Exit, Failure, error_code, is_retryable};
use crate::output::{self, message};
use crate::wait::{Deadline, parse_duration};

/// The state of a cluster that failed.
const ERROR: &str = "ERROR";

/// The state of a deleted cluster.
const DELETED: &str = "DELETED";

/// Wait until a cluster is in a state; one that does not exist counts as deleted
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  muster wait fred\n  muster wait fred --for deleted --timeout 5m")]
pub(crate) struct Wait {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// The state: active, deleted, or any other that `muster get` shows
    #[arg(long = "for", value_name = "STATE", default_value = "active", value_parser = parse_state, add = complete::words(all_states()))]
    state: String,
    /// Wait at most this long, such as 30s, 5m or 1h
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    timeout: Duration,
}

/// Parses a state into the API's spelling.
fn parse_state(text: &str) -> Result<String, String> {
    let wanted = text.to_uppercase();
    let states = || ClusterStatus::ALL.iter().map(|status| status.as_str());
    if states().any(|state| state == wanted) {
        return Ok(wanted);
    }
    Err(format!("'{text}' is not a state: use {}", all_states().collect::<Vec<_>>().join(", ")))
}

/// Returns the states as they are given.
fn all_states() -> impl Iterator<Item = String> {
    ClusterStatus::ALL.iter().map(|status| status.as_str().to_lowercase())
}

impl Wait {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { cluster: ClusterFlags { name, namespace, among, server }, state, timeout: at_most } =
                self;
            let wanted = state;
            let mut client = Deadline::after(at_most).limit(server.connect_to_existing()).await?;
            let namespace = namespace.resolve(&mut client).await?;
            let found = find(&mut client, &namespace, &name, &among).await;
            let cluster = match found {
                Err(failure) if failure.exit == Exit::NotFound && wanted == DELETED => {
                    // A name that was mistyped should be noticed.
                    message!("note: {}", failure.what);
                    return Ok(output::print(&format!("{name} is DELETED\n")));
                }
                found => found?,
            };
            let mut last = cluster.state.clone();
            if last != wanted {
                message!("{name} is {last}: waiting until it is {wanted}");
            }
            match timeout(at_most, until(&mut client, &cluster, &wanted, &mut last)).await {
                Ok(reached) => {
                    reached?;
                    Ok(output::print(&format!("{name} is {wanted}\n")))
                }
                Err(_) => {
                    let what =
                        format!("'{name}' is not {wanted} after {} s: it is {last}", at_most.as_secs());
                    Err(Failure::new(Exit::TimedOut, what).into())
                }
            }
        })
    }
}

/// Waits through lost connections and restarts of the server.
async fn until(
    client: &mut Client,
    cluster: &Cluster,
    wanted: &str,
    last: &mut String,
) -> Result<(), Failure> {
    loop {
        match follow(client, cluster, wanted, last).await {
            Ok(ended) => return ended,
            Err(status) if is_retryable(&status) => {
                client.reconnect(&status, |text| message!("{text}")).await?;
            }
            Err(status) if error_code(&status) == Some("ResumeTokenExpired") => {}
            Err(status) => return Err(status.into()),
        }
    }
}

/// Follows the cluster until it is in the state or deleted.
async fn follow(
    client: &mut Client,
    cluster: &Cluster,
    wanted: &str,
    last: &mut String,
) -> Result<Result<(), Failure>, Status> {
    let request = WatchClustersRequest {
        namespace: cluster.namespace.clone(),
        name_prefix: cluster.name.clone(),
        ..WatchClustersRequest::default()
    };
    let mut watch = client.clusters().watch_clusters(request).await?.into_inner();
    let mut is_there = false;
    let failed = |shown: &Cluster| {
        let Cluster { name, namespace, status_reason, .. } = shown;
        let what = format!("'{name}' is ERROR and does not recover by itself: {status_reason}");
        Failure::new(Exit::Failed, what).hint(format!("see `muster events {name} -n {namespace}`"))
    };
    while let Some(message) = watch.message().await? {
        client.mark_answered();
        let state = match &message.cluster {
            Some(shown) if shown.id != cluster.id => continue,
            Some(_) if message.r#type == DELETED => DELETED.to_owned(),
            Some(shown) => shown.state.clone(),
            // The initial list ended without the cluster.
            None if !is_there => DELETED.to_owned(),
            None => continue,
        };
        is_there = true;
        *last = state;
        if last == wanted {
            return Ok(Ok(()));
        }
        if let Some(shown) = message.cluster.filter(|_| last == ERROR) {
            match latest_open_action(client, &shown.id).await {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(Err(failed(&shown))),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        if last == DELETED {
            let what = format!("'{}' was deleted before it was {wanted}", cluster.name);
            return Ok(Err(Failure::new(Exit::NotFound, what)));
        }
    }
    Err(Status::unavailable("the server ended the watch"))
}
