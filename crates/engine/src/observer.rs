//! Watches the world: wakes actions that wait for it, writes what it sees, and submits healing.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::Level;
use muster_core::ids::ClusterId;
use muster_core::node::{Node, NodeStatus, Seen};
use muster_core::status;
use muster_store::commands::{Observe, SeenCluster, TakeDuty};
use muster_store::reads::{ClusterQuery, ClusterSort};
use muster_store::{Direction, StoreError};

use crate::engine::Inner;
use crate::events::{self, reason};
use crate::hub::Topic;
use crate::provider::{Call, Change, Observed, Provider};
use crate::submit;

/// How long to wait before the stream of changes is opened again.
const REOPEN: Duration = Duration::from_secs(1);

/// Follows one provider for as long as the engine runs.
pub(crate) async fn run(inner: Arc<Inner>, provider: Arc<dyn Provider>) {
    loop {
        let mut changes = provider.changes();
        loop {
            let change = tokio::select! {
                change = changes.next() => change,
                () = inner.stopping.cancelled() => return,
            };
            match change {
                Some(Change::Cluster(id)) => {
                    inner.hub.wake(Topic::World(id));
                    log(look_at(&inner, provider.as_ref(), id).await);
                }
                Some(Change::Everything) => {
                    inner.hub.wake_all();
                    log(look_at_all(&inner, provider.as_ref()).await);
                }
                None => break,
            }
        }
        tokio::select! {
            () = tokio::time::sleep(REOPEN) => {}
            () = inner.stopping.cancelled() => return,
        }
    }
}

fn log(result: Result<(), StoreError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "cannot write what was seen");
    }
}

/// Clusters that are read at once while all are looked at.
const AT_ONCE: u32 = 200;

/// Looks at every cluster of the instance: something may have happened while nobody listened.
async fn look_at_all(inner: &Inner, provider: &dyn Provider) -> Result<(), StoreError> {
    let mut query = ClusterQuery {
        instance: Some(provider.instance().clone()),
        sort: vec![(ClusterSort::InitAt, Direction::Ascending)],
        limit: Some(AT_ONCE),
        ..ClusterQuery::default()
    };
    loop {
        let page = inner.store.clusters(&query).await?;
        for cluster in page.items {
            look_at(inner, provider, cluster.id).await?;
        }
        if page.next.is_none() || inner.stopping.is_cancelled() {
            return Ok(());
        }
        query.after = page.next;
    }
}

/// Looks at one cluster, writes what changed, and asks for healing where something is lost.
async fn look_at(inner: &Inner, provider: &dyn Provider, id: ClusterId) -> Result<(), StoreError> {
    let duty = format!("observer/{}", provider.instance());
    let engine = inner.life().id;
    if !inner.store.take_duty(TakeDuty { name: duty.clone(), engine }).await? {
        return Ok(());
    }
    let Some(cluster) = inner.store.cluster(id).await?.filter(|cluster| cluster.deleted_at.is_none()) else {
        return Ok(());
    };
    let Some(profile) = inner.store.profile(cluster.profile_id).await? else { return Ok(()) };
    let Some(capabilities) = provider.capabilities(&profile.kind) else { return Ok(()) };
    let nodes = inner.store.members(id).await?;
    let call = Call { cluster: &cluster, profile: &profile, fence: muster_core::action::Fence(0) };
    // Nobody can tell how it is: the last word stays.
    let Ok(observed) = provider.observe(call, &nodes).await else { return Ok(()) };
    let lost = lost_nodes(&nodes, &observed);
    if lost.is_empty() {
        return Ok(());
    }
    let now = inner.clock.now();
    let told = lost
        .iter()
        .map(|node| events::of_node(None, node, Level::Warn, reason::NODE_LOST, &node.status_reason, now))
        .collect();
    let seen = seen_cluster(&cluster, &nodes, lost, observed, now);
    let command = Observe { duty, engine, clusters: vec![seen], events: told, now };
    let written = inner.store.observe(command).await?;
    if written && capabilities.heals_by_default {
        submit::heal(inner, &cluster).await?;
    }
    Ok(())
}

/// Nodes that worked and are certainly gone.
fn lost_nodes(nodes: &[Node], observed: &Observed) -> Vec<Node> {
    let lost = |node: &Node| {
        let why = match observed.of(node.id) {
            Seen::Exited { reason } => reason,
            Seen::Absent => "it is not there any more".to_owned(),
            Seen::Running { .. } | Seen::Starting { .. } | Seen::Unknown { .. } => return None,
        };
        let worked = matches!(node.status, NodeStatus::Active | NodeStatus::Warning);
        worked.then(|| Node { status: NodeStatus::Error, status_reason: why, ..node.clone() })
    };
    nodes.iter().filter_map(lost).collect()
}

fn seen_cluster(
    cluster: &Cluster,
    nodes: &[Node],
    lost: Vec<Node>,
    observed: Observed,
    now: muster_core::time::Timestamp,
) -> SeenCluster {
    let is_lost = |node: &Node| lost.iter().any(|gone| gone.id == node.id);
    let left: Vec<Node> = nodes.iter().filter(|node| !is_lost(node)).cloned().collect();
    let active = status::active_workers(&left);
    let head = status::head_state(cluster, &left);
    let busy = ClusterStatus::is_transitional(cluster.status);
    let mut summary = cluster.observed.clone();
    summary.ready_workers = Some(active);
    summary.head_ready = cluster.has_head.then_some(head == status::HeadState::Up);
    summary.endpoints = observed.endpoints;
    summary.at = Some(now);
    let status = (!busy).then(|| status::evaluate(cluster, active, head, "NODE_CHECK"));
    SeenCluster { id: cluster.id, observed: summary, status, nodes: lost }
}
