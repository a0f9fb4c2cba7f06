//! Operations that only some profile types support.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use muster_core::action::ActionStatus;
use muster_core::change::{Change, OperateNodes, Recovery};
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus};
use muster_core::time::Timestamp;
use muster_store::commands::ActionEnd;
use serde_json::{Map, Value};

use crate::actions::node::target;
use crate::ports::provider::{FencedCall, ProviderError};
use crate::run::{ActionRun, Children, Members, Stop, succeeded, summarize};

/// Limits the concurrent operations of one action.
const MAX_CONCURRENT: usize = 32;

/// An operation on nodes, which may be a recovery.
#[derive(Debug, Clone)]
pub(crate) struct OperationRequest {
    pub(crate) operation: String,
    pub(crate) params: Option<Map<String, Value>>,
    /// The members to operate on; none means all.
    pub(crate) nodes: Option<Vec<NodeId>>,
    /// True if the operation recovers the nodes.
    pub(crate) recovers: bool,
}

impl OperationRequest {
    /// Returns the status of nodes during the operation, and the change of their child actions.
    fn child(&self) -> (NodeStatus, Change) {
        if self.recovers {
            return (NodeStatus::Recovering, Change::RecoverNode(Recovery::default()));
        }
        let (operation, params) = (self.operation.clone(), self.params.clone());
        (NodeStatus::Operating, Change::OperateNode(OperateNodes { operation, params, nodes: None }))
    }

    fn message(&self, how: &str) -> String {
        if self.recovers {
            format!("Recovery {how}")
        } else {
            format!("Operation '{}' {how}", self.operation)
        }
    }
}

/// Runs an operation on one node.
pub(crate) async fn operate(run: &mut ActionRun, operation: OperateNodes) -> Result<(), Stop> {
    let node = target(&run.subject)?;
    operate_all(run, OperateNodes { nodes: Some(vec![node.id]), ..operation }).await
}

/// Runs an operation on members.
pub(crate) async fn operate_all(run: &mut ActionRun, operation: OperateNodes) -> Result<(), Stop> {
    let OperateNodes { operation, params, nodes } = operation;
    operate_nodes(run, OperationRequest { operation, params, nodes, recovers: false }).await
}

/// Runs an operation on nodes. Nodes whose child action has ended are skipped, so that a take-over does not repeat the
/// operation.
pub(crate) async fn operate_nodes(run: &mut ActionRun, request: OperationRequest) -> Result<(), Stop> {
    let wanted: Option<HashSet<NodeId>> = request.nodes.clone().map(|nodes| nodes.into_iter().collect());
    let chosen = |node: &&Node| {
        wanted.as_ref().is_none_or(|wanted| wanted.contains(&node.id))
            && !run.children.done.contains(&node.id)
            && !run.children.given_up.contains_key(&node.id)
    };
    let nodes: Vec<NodeId> = run.subject.nodes.iter().filter(chosen).map(|node| node.id).collect();
    let (status, child) = request.child();
    let children = run.children.begin_all(&child, &nodes, run.now());
    for id in &nodes {
        run.subject.nodes.set_status(*id, status, &request.message("in progress"), run.now());
    }
    run.commit_with(children, false).await?;
    let failures = call_each(run, &request, &nodes).await?;
    if failures.is_empty() { Ok(()) } else { Err(Stop::Failed(summarize(&failures))) }
}

/// Runs the operation concurrently and flushes results periodically; returns the reasons of the nodes that failed.
async fn call_each(
    run: &mut ActionRun,
    request: &OperationRequest,
    nodes: &[NodeId],
) -> Result<Vec<String>, Stop> {
    let fence = run.action.fence;
    let shared = Arc::new((run.node_provider()?, run.subject.cluster.clone(), request.clone()));
    let mut calls: Vec<BoxFuture<'static, (NodeId, Result<(), ProviderError>)>> = Vec::new();
    for (profile, nodes) in run.subject.by_profile(nodes) {
        let profile = Arc::new(profile);
        for node in nodes {
            let (shared, profile) = (Arc::clone(&shared), Arc::clone(&profile));
            calls.push(Box::pin(async move {
                let (provider, cluster, request) = shared.as_ref();
                let call = FencedCall { cluster, profile: &profile, fence };
                let parameters = request.params.clone().unwrap_or_default();
                (node.id, provider.operate(call, &node, &request.operation, &parameters).await)
            }));
        }
    }
    let mut results = futures::stream::iter(calls).buffer_unordered(MAX_CONCURRENT);
    let mut failures: Vec<String> = run.children.given_up.values().cloned().collect();
    let mut flush = tokio::time::interval(run.context.config.flush_period.into());
    flush.reset();
    loop {
        tokio::select! {
            biased;
            next = results.next() => match next {
                Some((id, done)) => {
                    let (now, nodes, children) = (run.now(), &mut run.subject.nodes, &mut run.children);
                    failures.extend(record_result(nodes, children, request, id, done, now));
                }
                None => return Ok(failures),
            },
            stop = run.control.interrupted() => return Err(stop),
            _ = flush.tick() => run.flush().await?,
        }
    }
}

/// Records the result of one node; returns the reason if the operation failed.
fn record_result(
    nodes: &mut Members,
    children: &mut Children,
    request: &OperationRequest,
    id: NodeId,
    done: Result<(), ProviderError>,
    now: Timestamp,
) -> Option<String> {
    let name = nodes.get(id).map(|node| node.name.clone()).unwrap_or_default();
    match done {
        Ok(()) => {
            let message = request.message("succeeded");
            nodes.set_status(id, NodeStatus::Active, &message, now);
            children.end(id, succeeded(&message));
            None
        }
        Err(error) => {
            let message = format!("{}: {}", request.message("failed"), error.message);
            nodes.set_status(id, NodeStatus::Error, &message, now);
            children.end(id, ActionEnd { status: ActionStatus::Failed, reason: message });
            Some(format!("{name}: {}", error.message))
        }
    }
}
