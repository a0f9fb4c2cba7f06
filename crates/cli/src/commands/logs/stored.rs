//! Logs of deleted clusters.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Result;
use muster_proto::v1alpha2::GetLogsRequest;
use muster_proto::wkt::Timestamp;

use super::ClusterFlags;
use super::choose::{HEAD, WORKERS};
use super::print::LogPrinter;
use crate::connect::Client;
use crate::failure::{Exit, Failure};

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
        [word] if word != HEAD && word != WORKERS && !is_number(word) => word.clone(),
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
    let mut nodes = BTreeSet::new();
    while let Some(chunk) = log.message().await.map_err(Failure::from)? {
        nodes.insert(chunk.node.clone());
        if is_named && !words.is_empty() && !words.iter().any(|word| selects(word, &chunk.node)) {
            continue;
        }
        if !printer.print(&chunk.node, is_named, &chunk) {
            return Ok(ExitCode::FAILURE);
        }
    }
    let fits_none = |word: &&String| !nodes.iter().any(|node| selects(word, node));
    match words.iter().filter(|_| is_named).find(fits_none) {
        Some(word) => {
            let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let what = format!("node '{word}' has no stored log: there are logs of {}", names.join(", "));
            Err(Failure::new(Exit::NotFound, what).into())
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Returns true if a value of `--node` selects this node.
fn selects(word: &str, node: &str) -> bool {
    match word {
        HEAD => node.ends_with(OF_HEADS),
        WORKERS => !node.ends_with(OF_HEADS),
        number if is_number(number) => node.rsplit_once('-').is_some_and(|(_, of_node)| of_node == number),
        name => node == name,
    }
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("head", true, false)]
    #[case("worker", false, true)]
    #[case("2", false, true)]
    #[case("1", false, false)]
    #[case("fred-worker-2", false, true)]
    fn values_select_stored_logs(#[case] word: &str, #[case] head: bool, #[case] worker: bool) {
        assert_eq!((selects(word, "fred-head"), selects(word, "fred-worker-2")), (head, worker));
    }
}
