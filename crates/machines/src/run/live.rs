//! Reads from the API server for reviews that a stale cache would refuse.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::timeout;

use super::apply::message;
use crate::keys;
use crate::types::Machine;

/// The time-out of the reads for a review, which is shorter than that of the review.
const READ: Duration = Duration::from_secs(2);

/// The largest number of concurrent requests for a review.
const CONCURRENT: usize = 16;

/// The Machines of a group.
pub(crate) async fn machines_of(client: &Client, group: &str) -> Result<Vec<Machine>, String> {
    let of_group = ListParams::default().labels(&format!("{}={group}", keys::MACHINE_GROUP));
    let machines = Api::<Machine>::all(client.clone());
    in_time(async { Ok(machines.list(&of_group).await?.items) }).await
}

/// All Machines, and those of `nodes` that exist.
pub(crate) async fn machines_and_nodes(
    client: &Client,
    nodes: Vec<String>,
) -> Result<(Vec<Machine>, Vec<String>), String> {
    let machines = Api::<Machine>::all(client.clone());
    let api = Api::<Node>::all(client.clone());
    let existing = |name: String| {
        let api = &api;
        async move { Ok(api.get_metadata_opt(&name).await?.map(|_| name)) }
    };
    let everything = ListParams::default();
    in_time(async {
        let nodes = stream::iter(nodes).map(existing).buffered(CONCURRENT).try_collect::<Vec<_>>();
        let (machines, nodes) = futures::try_join!(machines.list(&everything), nodes)?;
        Ok((machines.items, nodes.into_iter().flatten().collect()))
    })
    .await
}

async fn in_time<T>(read: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match timeout(READ, read).await {
        Ok(read) => read.map_err(|error| message(&error)),
        Err(_) => Err(format!("Kubernetes did not answer within {} s", READ.as_secs())),
    }
}
