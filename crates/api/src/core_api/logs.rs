//! Logs of nodes: streamed from the provider, or stored logs of a deleted cluster.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use muster_core::cluster::Cluster;
use muster_core::node::{Node, NodeRole};
use muster_core::time::Timestamp;
use muster_proto::v1alpha2::{GetLogsRequest, LogChunk};
use muster_proto::wkt;
use muster_service::ServiceError;
use muster_service::ports::{LogLines, LogQuery, LogText, ProviderError, StoredLog};
use tonic::Status;

use super::CoreApi;
use crate::error::ApiError;
use crate::streams::until_closed;

impl CoreApi {
    /// Streams the log of a node in chunks of whole lines; of a deleted cluster, the stored logs.
    pub(super) async fn log_chunks(
        &self,
        cluster: &Cluster,
        request: &GetLogsRequest,
    ) -> Result<BoxStream<'static, Result<LogChunk, Status>>, ApiError> {
        let tail = request.tail.map(|lines| {
            let why = || ApiError::invalid(format!("tail is {lines}: must be 0 or greater"));
            usize::try_from(lines).map_err(|_| why())
        });
        let query = LogQuery {
            tail: tail.transpose()?,
            follow: request.follow,
            since: request.since.map(|since| Timestamp::from_micros(since.micros())),
            task_output: request.task_output,
        };
        let chunks = if cluster.deleted_at.is_some() {
            let logs = stored(cluster, self.service.stored_logs(cluster, query).await?, &request.node)?;
            let logs: Vec<_> = logs.into_iter().map(|log| self.chunks(log.name, log.lines)).collect();
            futures::stream::iter(logs).flatten().boxed()
        } else {
            let node = chosen(self.service.members(cluster).await?, &request.node)?;
            let lines = self.service.logs(cluster, &node, query).await?;
            self.chunks(node.name, lines)
        };
        let message = "the server is stopping: read the log again once a server answers";
        Ok(until_closed(self.service.closing(), chunks, message))
    }

    fn chunks(&self, node: String, lines: LogLines) -> BoxStream<'static, Result<LogChunk, Status>> {
        let service = self.service.clone();
        let chunk = move |part: Result<LogText, ProviderError>| {
            let at = Some(wkt::Timestamp::from_micros(service.now().micros()));
            let LogText { source, text } = part.map_err(refused)?;
            Ok(LogChunk { node: node.clone(), at, text, source })
        };
        lines.map(chunk).boxed()
    }
}

/// Returns the stored log of the node with this name or id; all stored logs if none is given.
fn stored(cluster: &Cluster, logs: Vec<StoredLog>, given: &str) -> Result<Vec<StoredLog>, ApiError> {
    if logs.is_empty() {
        let message = format!(
            "cluster '{}' is deleted, and has no stored logs: only those of local nodes are stored, for retention_days",
            cluster.name
        );
        return Err(ApiError::not_found(message).code("NoLogs"));
    }
    if given.is_empty() {
        return Ok(logs);
    }
    let names: Vec<String> = logs.iter().map(|log| log.name.clone()).collect();
    let log = logs.into_iter().find(|log| log.name == given || log.node.to_string() == given);
    log.map(|log| vec![log]).ok_or_else(|| unknown(given, &names.join(", ")))
}

fn unknown(given: &str, there: &str) -> ApiError {
    ApiError::not_found(format!("node '{given}' not found: use one of {there}"))
}

/// Returns the node with this name or id; if none is given, the head or the only node.
fn chosen(nodes: Vec<Node>, given: &str) -> Result<Node, ApiError> {
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let there = names.join(", ");
    let is_asked = |node: &Node| match given {
        "" => node.role == NodeRole::Head || names.len() == 1,
        given => node.name == given || node.id.to_string() == given,
    };
    nodes.into_iter().find(is_asked).ok_or_else(|| match (given, there.as_str()) {
        (_, "") => ApiError::impossible("the cluster has no nodes now: there is no log").code("NoNodes"),
        ("", there) => ApiError::invalid(format!("node is missing: use one of {there}")),
        (given, there) => unknown(given, there),
    })
}

fn refused(error: ProviderError) -> ApiError {
    ServiceError::from(error).into()
}
