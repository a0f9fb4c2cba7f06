//! Logs, which only the provider knows.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use muster_core::cluster::Cluster;
use muster_core::node::{Node, NodeRole};
use muster_proto::v1alpha2::{GetLogsRequest, LogChunk};
use muster_proto::wkt;
use muster_service::ServiceError;
use muster_service::ports::{LogQuery, ProviderError};
use tonic::Status;

use super::CoreApi;
use crate::error::ApiError;

impl CoreApi {
    /// The log of a node, in chunks of whole lines.
    pub(super) async fn log_chunks(
        &self,
        cluster: &Cluster,
        request: &GetLogsRequest,
    ) -> Result<BoxStream<'static, Result<LogChunk, Status>>, ApiError> {
        let nodes = self.service.members(cluster).await?;
        let node = chosen(nodes, &request.node)?;
        let tail = request.tail.map(|lines| {
            let why = || ApiError::invalid(format!("tail is {lines}: must be 0 or greater"));
            usize::try_from(lines).map_err(|_| why())
        });
        let query = LogQuery { tail: tail.transpose()?, follow: request.follow };
        let lines = self.service.logs(cluster, &node, query).await?;
        let (service, name) = (self.service.clone(), node.name);
        let chunk = move |text: Result<String, ProviderError>| {
            let at = Some(wkt::Timestamp::from_micros(service.now().micros()));
            Ok(LogChunk { node: name.clone(), at, text: text.map_err(refused)? })
        };
        let closing = self.service.closing().clone().cancelled_owned();
        Ok(lines.map(chunk).take_until(closing).boxed())
    }
}

/// The node of a name or id; if none is given, the head or the only node.
fn chosen(nodes: Vec<Node>, given: &str) -> Result<Node, ApiError> {
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let there = names.join(", ");
    let is_asked = |node: &Node| match given {
        "" => node.role == NodeRole::Head || names.len() == 1,
        given => node.name == given || node.id.to_string() == given,
    };
    nodes.into_iter().find(is_asked).ok_or_else(|| match (given, there.as_str()) {
        (_, "") => ApiError::impossible("the cluster has no nodes now: there is no log").code("NoNodes"),
        ("", there) => ApiError::invalid(format!("say which node; there are: {there}")),
        (given, there) => ApiError::not_found(format!("there is no node '{given}'; there are: {there}")),
    })
}

fn refused(error: ProviderError) -> ApiError {
    ServiceError::from(error).into()
}
