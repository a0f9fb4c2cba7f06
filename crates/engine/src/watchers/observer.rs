//! Observes the world: wakes actions that wait for changes, records observations, and submits healing.

pub(crate) mod delegated;
pub(crate) mod discovery;
pub(crate) mod leftovers;
pub(crate) mod orphans;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::Level;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::{Node, NodeStatus, Seen};
use muster_core::status::{Counts, HeadState};
use muster_core::time::Timestamp;
use muster_store::commands::{Observe, SeenCluster, TakeDuty};
use muster_store::reads::{ClusterQuery, ClusterSort};
use muster_store::{Direction, StoreError};

use crate::admission::submit;
use crate::context::Context;
use crate::events::{self, reason};
use crate::intent::orphan;
use crate::notify::Topic;
use crate::ports::provider::{Change, ClusterTarget, Membership, Observed, Provider};
use crate::reconcile::individual::abort;
use crate::watchers::health;

/// Delay before the stream of changes is reopened.
const REOPEN: Duration = Duration::from_secs(1);

/// The status reason of a cluster whose nodes ended with their machine.
const ENDED_WITH_MACHINE: &str = "HostRestarted: its machine was restarted, and its nodes ended with that. They are \
                                  not brought back unasked: restart, scale or delete the cluster.";

/// Changes that are processed together.
const CHANGES_AT_ONCE: usize = 1024;

/// Observes the clusters of one provider for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>, provider: Arc<dyn Provider>) {
    let mut open = Open::default();
    let period: Duration = context.config.safety_period.into();
    loop {
        let mut changes = provider.changes().ready_chunks(CHANGES_AT_ONCE);
        loop {
            let some = tokio::select! {
                some = changes.next() => some,
                () = tokio::time::sleep(period), if open.is_any() => {
                    open.look_again(&context, &provider).await;
                    continue;
                }
                () = context.stopping.cancelled() => return,
            };
            let Some(some) = some else { break };
            if some.contains(&Change::Everything) {
                context.notifier.notify_all();
                open.everything = true;
                open.look_again(&context, &provider).await;
                continue;
            }
            // One observation covers all earlier changes of a cluster.
            let Ok(clusters) = orphans::clusters_of(&context, &some).await else {
                open.everything = true;
                continue;
            };
            for id in &clusters {
                context.notifier.notify(Topic::World(*id));
            }
            open.look_at_changed(&context, &provider, clusters).await;
        }
        tokio::select! {
            () = tokio::time::sleep(REOPEN) => {}
            () = context.stopping.cancelled() => return,
        }
    }
}

/// The outcome of an observation.
pub(crate) enum Looked {
    /// Rows and world are in sync.
    Settled,
    /// Something is lost or unknown: the cluster is observed again until rows and world are in sync.
    Open,
    /// Another engine holds the duty; if it dies, changes from now on may be missed.
    NotOurs,
}

/// Clusters that have to be observed again.
#[derive(Default)]
struct Open {
    everything: bool,
    clusters: HashSet<ClusterId>,
}

impl Open {
    fn is_any(&self) -> bool {
        self.everything || !self.clusters.is_empty()
    }

    fn note(&mut self, id: ClusterId, looked: Result<Looked, StoreError>) {
        match looked {
            Ok(Looked::Settled) => drop(self.clusters.remove(&id)),
            Ok(Looked::Open) => drop(self.clusters.insert(id)),
            Ok(Looked::NotOurs) => self.note_everything(),
            Err(error) => {
                tracing::warn!(%error, "cannot record an observation");
                self.clusters.insert(id);
            }
        }
    }

    fn note_everything(&mut self) {
        // Everything includes any number of clusters.
        self.clusters.clear();
        self.everything = true;
    }

    /// Whether this engine holds the duty; if not, or if unknown, the backlog is kept.
    async fn is_ours(&mut self, context: &Context, provider: &Arc<dyn Provider>) -> bool {
        let duty = TakeDuty { name: duty(provider), engine: context.lease().id };
        let name = duty.name.clone();
        match context.store.take_duty(duty).await {
            Ok(ours) => {
                context.metrics.duty(&name, ours);
                if !ours {
                    self.note_everything();
                }
                ours
            }
            Err(error) => {
                tracing::warn!(%error, duty = name, "cannot read who holds the duty");
                false
            }
        }
    }

    async fn look_at_changed(
        &mut self,
        context: &Context,
        provider: &Arc<dyn Provider>,
        changed: HashSet<ClusterId>,
    ) {
        self.clusters.extend(&changed);
        if !self.is_ours(context, provider).await {
            return;
        }
        let changed: Vec<ClusterId> = changed.into_iter().collect();
        let Some(held) = held(context, &changed).await else { return };
        for id in changed {
            if context.stopping.is_cancelled() {
                return;
            }
            let looked = look_at(context, provider, id, Glance::first(&held, id)).await;
            self.note(id, looked);
        }
    }

    async fn look_again(&mut self, context: &Context, provider: &Arc<dyn Provider>) {
        if !self.is_ours(context, provider).await {
            return;
        }
        if std::mem::take(&mut self.everything)
            && let Err(error) = Box::pin(self.look_at_all(context, provider)).await
        {
            tracing::warn!(%error, "cannot observe all clusters");
            self.everything = true;
        }
        let open: Vec<ClusterId> = self.clusters.iter().copied().collect();
        let Some(held) = held(context, &open).await else { return };
        // An action that holds a cluster observes it itself, and losses before it are recorded already.
        for id in open.into_iter().filter(|id| !held.contains(id)) {
            if self.everything || context.stopping.is_cancelled() {
                return;
            }
            let looked = look_at(context, provider, id, Glance::Again).await;
            self.note(id, looked);
        }
    }
}

/// The page size when all clusters are observed.
const AT_ONCE: u32 = 200;

impl Open {
    /// Observes every cluster of the instance: changes may have been missed.
    async fn look_at_all(
        &mut self,
        context: &Context,
        provider: &Arc<dyn Provider>,
    ) -> Result<(), StoreError> {
        let mut query = ClusterQuery {
            instance: Some(provider.instance().clone()),
            sort: vec![(ClusterSort::InitAt, Direction::Ascending)],
            limit: Some(AT_ONCE),
            ..ClusterQuery::default()
        };
        let operator = Arc::clone(provider).operator_provider();
        let mut discovered: HashSet<ClusterId> =
            operator.into_iter().flat_map(|operator| operator.discovered()).collect();
        loop {
            let page = context.store.clusters(&query).await?;
            let ids: Vec<ClusterId> = page.items.iter().map(|cluster| cluster.id).collect();
            let held = context.store.held(&ids).await?;
            for id in ids {
                discovered.remove(&id);
                let looked = look_at(context, provider, id, Glance::first(&held, id)).await;
                self.note(id, looked);
                if self.everything || context.stopping.is_cancelled() {
                    return Ok(());
                }
            }
            if page.next.is_none() {
                break;
            }
            query.after = page.next;
        }
        // Clusters that exist without a row, or with a deleted one.
        for id in discovered {
            let looked = look_at(context, provider, id, Glance::First).await;
            self.note(id, looked);
            if self.everything || context.stopping.is_cancelled() {
                return Ok(());
            }
        }
        for node in context.store.orphans(provider.instance()).await? {
            let id = orphan::id(node.id);
            let looked = look_at(context, provider, id, Glance::First).await;
            self.note(id, looked);
            if self.everything || context.stopping.is_cancelled() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The name of the duty, which one engine at a time holds for an instance.
pub(crate) fn duty(provider: &Arc<dyn Provider>) -> String {
    format!("observer/{}", provider.instance())
}

/// Those of these clusters that an action holds; none if unknown, then they are observed later.
async fn held(context: &Context, ids: &[ClusterId]) -> Option<HashSet<ClusterId>> {
    let held = context.store.held(ids).await;
    held.inspect_err(|error| tracing::warn!(%error, "cannot tell which clusters actions have")).ok()
}

/// Why a cluster is observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Glance {
    /// It changed.
    First,
    /// It changed while an action holds it, which observes it itself.
    FirstWhileHeld,
    /// An earlier observation is still pending.
    Again,
}

impl Glance {
    fn first(held: &HashSet<ClusterId>, id: ClusterId) -> Self {
        if held.contains(&id) { Self::FirstWhileHeld } else { Self::First }
    }
}

/// Observes one cluster, records changes, and submits healing where something is lost.
///
/// While an action holds the cluster, only the first observation records losses: later ones would record them again.
async fn look_at(
    context: &Context,
    provider: &Arc<dyn Provider>,
    id: ClusterId,
    glance: Glance,
) -> Result<Looked, StoreError> {
    let row = match context.store.cluster(id).await? {
        None if discovery::discover(context, provider, duty(provider), id).await? => {
            context.store.cluster(id).await?
        }
        row => row,
    };
    let cluster = match row {
        Some(cluster) if cluster.deleted_at.is_none() => cluster,
        Some(history) => return leftovers::collect(context, provider, &history).await,
        None => return orphans::look_at(context, provider, id).await,
    };
    let kind = &cluster.profile_type;
    let Some(capabilities) = provider.capabilities(kind, cluster.flavor.as_deref()) else {
        return Ok(Looked::Settled);
    };
    let delegated = matches!(capabilities.membership, Membership::Delegated(_));
    if delegated && glance == Glance::FirstWhileHeld {
        return Ok(Looked::Open);
    }
    let Some(profile) = context.store.profile(cluster.profile_id).await? else { return Ok(Looked::Settled) };
    let nodes = context.store.members(id).await?;
    let target = ClusterTarget { cluster: &cluster, profile: &profile };
    // Members of an operator are recognised by their identities: the provider does not need the rows.
    let known = if delegated { &[] } else { nodes.as_slice() };
    let look = context.stopping.run_until_cancelled(provider.observe(target, known));
    // Unknown changes nothing: the last known state stays.
    let Some(Ok(observed)) = look.await else { return Ok(Looked::Open) };
    let duty = duty(provider);
    if delegated {
        return delegated::look_at(context, duty, cluster, nodes, observed).await;
    }
    let lost = lost_nodes(&nodes, &observed);
    if lost.is_empty() {
        return Ok(Looked::Settled);
    }
    if glance == Glance::Again && cluster.status.is_transitional() {
        return Ok(Looked::Open);
    }
    let now = context.clock.now();
    let restarted = |node: &Node| observed.of(node.id) == Seen::HostRestarted;
    let tell = |node: &Node| {
        let reason = if restarted(node) { reason::HOST_RESTARTED } else { reason::NODE_LOST };
        events::of_node(None, node, Level::Warn, reason, &node.status_reason, now)
    };
    let told = lost.iter().map(tell).collect();
    let with_machine = lost.iter().any(restarted);
    let left_alone = abort::is_left_alone(&cluster, &capabilities);
    // A health policy replaces default healing.
    let heals = capabilities.heals_by_default
        && !with_machine
        && !left_alone
        && !health::is_cared_for(context, id).await?;
    let mut seen = seen_cluster(&cluster, &nodes, lost, heals, observed, now);
    if with_machine && seen.status.is_some() {
        seen.status = Some((ClusterStatus::Critical, ENDED_WITH_MACHINE.to_owned()));
    } else if let Some((_, words)) = seen.status.as_mut().filter(|_| left_alone) {
        *words = abort::left_alone(words);
    }
    let healing = heals.then(|| submit::healing(context, &cluster)).into_iter().collect();
    let engine = context.lease().id;
    let command =
        Observe { duty, engine, clusters: vec![seen], orphans: Vec::new(), events: told, healing, now };
    Ok(if context.store.observe(command).await? { Looked::Open } else { Looked::NotOurs })
}

/// Nodes that worked and are certainly gone.
fn lost_nodes(nodes: &[Node], observed: &Observed) -> Vec<Node> {
    let lost = |node: &Node| {
        let reason = observed.of(node.id).loss()?.to_owned();
        node.was_working().then(|| Node { status: NodeStatus::Error, status_reason: reason, ..node.clone() })
    };
    // What the loss of a node means whose role only a newer version knows, that version tells.
    nodes.iter().filter(|node| node.has_known_role()).filter_map(lost).collect()
}

fn seen_cluster(
    cluster: &Cluster,
    nodes: &[Node],
    lost: Vec<Node>,
    heals: bool,
    observed: Observed,
    now: Timestamp,
) -> SeenCluster {
    let gone: HashSet<NodeId> = lost.iter().map(|node| node.id).collect();
    let mut counts = Counts::of(cluster, nodes.iter().filter(|node| !gone.contains(&node.id)));
    let mut after = cluster.clone();
    counts.write_to(&mut after);
    after.observed.endpoints = observed.endpoints;
    after.observed.at = Some(now);
    if heals && counts.head == HeadState::Lost {
        // Its recovery is submitted in the same commit.
        counts.head = HeadState::Recovering;
    }
    let why = lost.first().map(|node| format!(" {}: {}", node.name, node.status_reason)).unwrap_or_default();
    let more = lost.len().saturating_sub(1);
    let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    let busy = cluster.status.is_transitional();
    let status = (!busy).then(|| {
        let (status, reason) = counts.evaluate(cluster, "NODE_CHECK");
        (status, format!("{reason}{why}{more}"))
    });
    SeenCluster { id: cluster.id, observed: after.observed, status, nodes: lost }
}
