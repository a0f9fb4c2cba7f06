//! Logs of deleted clusters.

use std::process::ExitCode;

use anyhow::Result;
use muster_proto::v1alpha2::GetLogsRequest;
use muster_proto::wkt::Timestamp;

use super::ClusterFlags;
use super::choose::{HEAD, WORKERS};
use super::print::LogPrinter;
use crate::connect::Client;

/// Suffix of the names of heads: the roles of deleted nodes are not stored.
const OF_HEADS: &str = "-head";

/// Builds the request for the logs of the last cluster of this name; of one node if a single one is named.
pub(super) fn request(
    flags: &ClusterFlags,
    namespace: String,
    words: &[String],
    tail: Option<i32>,
    since: Option<Timestamp>,
) -> GetLogsRequest {
    let (framework, provider) = flags.among.request_fields();
    let node = match words {
        [word] if word != HEAD && word != WORKERS => word.clone(),
        _ => String::new(),
    };
    GetLogsRequest {
        name: flags.name.clone(),
        namespace,
        framework,
        provider,
        node,
        tail,
        since,
        task_output: true,
        ..GetLogsRequest::default()
    }
}

/// Prints the stored logs, one after the other.
pub(super) async fn print(
    client: &mut Client,
    request: GetLogsRequest,
    words: &[String],
    mut printer: LogPrinter,
) -> Result<ExitCode> {
    let is_named = request.node.is_empty();
    let call = async |client: &Client| client.clusters().get_logs(request.clone()).await;
    let mut log = client.retry(call).await?.into_inner();
    while let Some(chunk) = log.message().await.map_err(crate::failure::Failure::from)? {
        if is_named && !words.is_empty() && !words.iter().any(|word| selects(word, &chunk.node)) {
            continue;
        }
        if !printer.print(&chunk.node, is_named, &chunk) {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns true if a value of `--node` selects this node.
fn selects(word: &str, node: &str) -> bool {
    match word {
        HEAD => node.ends_with(OF_HEADS),
        WORKERS => !node.ends_with(OF_HEADS),
        name => node == name,
    }
}
