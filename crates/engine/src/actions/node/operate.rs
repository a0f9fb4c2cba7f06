//! What can be done to nodes of some types only.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use muster_core::action::{ActionKind, ActionStatus};
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus};
use muster_store::commands::End;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::actions::node::target;
use crate::ports::provider::{Call, ProviderError};
use crate::run::{ActionRun, Stop};
use crate::run::{succeeded, summarize};

/// Nodes that are operated at once.
const AT_ONCE: usize = 32;

/// What is done, and to whom.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Deed {
    pub(crate) operation: String,
    #[serde(default)]
    pub(crate) params: Option<Map<String, Value>>,
    /// To which members; to all if nothing is said.
    #[serde(default)]
    pub(crate) nodes: Option<Vec<NodeId>>,
    /// It brings nodes back.
    #[serde(skip)]
    pub(crate) recovers: bool,
}

impl Deed {
    /// What nodes show meanwhile, and what their parts of the action are called.
    fn during(&self) -> (NodeStatus, ActionKind) {
        if self.recovers {
            (NodeStatus::Recovering, ActionKind::NodeRecover)
        } else {
            (NodeStatus::Operating, ActionKind::NodeOperation)
        }
    }

    fn words(&self, how: &str) -> String {
        if self.recovers {
            format!("Recovery {how}")
        } else {
            format!("Operation '{}' {how}", self.operation)
        }
    }
}

/// Does it to one node.
pub(crate) async fn operate(run: &mut ActionRun) -> Result<(), Stop> {
    let (node, deed) = (target(run)?, run.inputs::<Deed>()?);
    operate_nodes(run, Deed { nodes: Some(vec![node.id]), ..deed }).await
}

/// Does it to members.
pub(crate) async fn operate_all(run: &mut ActionRun) -> Result<(), Stop> {
    let deed = run.inputs()?;
    operate_nodes(run, deed).await
}

/// An engine that goes on does not do it again to those that have it behind them.
pub(crate) async fn operate_nodes(run: &mut ActionRun, deed: Deed) -> Result<(), Stop> {
    let wanted: Option<HashSet<NodeId>> = deed.nodes.clone().map(|nodes| nodes.into_iter().collect());
    let chosen = |node: &&Node| {
        wanted.as_ref().is_none_or(|wanted| wanted.contains(&node.id))
            && !run.done.contains(&node.id)
            && !run.given_up.contains_key(&node.id)
    };
    let nodes: Vec<NodeId> = run.nodes.iter().filter(chosen).map(|node| node.id).collect();
    let (status, kind) = deed.during();
    let children = run.children_for(kind, &nodes);
    for id in &nodes {
        run.settle(*id, status, &deed.words("in progress"));
    }
    run.commit_with(children, false).await?;
    let failures = act(run, &deed, &nodes).await?;
    if failures.is_empty() { Ok(()) } else { Err(Stop::Failed(summarize(&failures))) }
}

/// Does it to all at once, and writes now and then who has it behind them; who failed, and why.
async fn act(run: &mut ActionRun, deed: &Deed, nodes: &[NodeId]) -> Result<Vec<String>, Stop> {
    let fence = run.action.fence;
    let shared = Arc::new((Arc::clone(&run.provider), run.cluster.clone(), deed.clone()));
    let mut each: Vec<BoxFuture<'static, (NodeId, Result<(), ProviderError>)>> = Vec::new();
    for (profile, nodes) in run.by_recipe(nodes) {
        let profile = Arc::new(profile);
        for node in nodes {
            let (shared, profile) = (Arc::clone(&shared), Arc::clone(&profile));
            each.push(Box::pin(async move {
                let (provider, cluster, deed) = shared.as_ref();
                let call = Call { cluster, profile: &profile, fence };
                let parameters = deed.params.clone().unwrap_or_default();
                (node.id, provider.operate(call, &node, &deed.operation, &parameters).await)
            }));
        }
    }
    let mut results = futures::stream::iter(each).buffer_unordered(AT_ONCE);
    let mut failures: Vec<String> = run.given_up.values().cloned().collect();
    let mut flush = tokio::time::interval(run.context.config.flush_period.into());
    flush.reset();
    loop {
        tokio::select! {
            biased;
            next = results.next() => match next {
                Some((id, done)) => failures.extend(take_in(run, deed, id, done)),
                None => return Ok(failures),
            },
            stop = run.interrupted() => return Err(stop),
            _ = flush.tick() => run.flush().await?,
        }
    }
}

fn take_in(run: &mut ActionRun, deed: &Deed, id: NodeId, done: Result<(), ProviderError>) -> Option<String> {
    let name = run.node(id).map(|node| node.name.clone()).unwrap_or_default();
    match done {
        Ok(()) => {
            let words = deed.words("succeeded");
            run.settle(id, NodeStatus::Active, &words);
            run.end_child(id, succeeded(&words));
            None
        }
        Err(error) => {
            let words = format!("{}: {}", deed.words("failed"), error.message);
            run.settle(id, NodeStatus::Error, &words);
            run.end_child(id, End { status: ActionStatus::Failed, reason: words });
            Some(format!("{name}: {}", error.message))
        }
    }
}
