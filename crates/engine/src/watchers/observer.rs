//! Observes the clusters of a provider: wakes actions that wait for changes, records observations, and submits healing.

pub(crate) mod delegated;
pub(crate) mod discovery;
pub(crate) mod leftovers;
pub(crate) mod orphans;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use muster_core::action::ActionStatus;
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::{Event, Level};
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::{Node, NodeStatus, Observation};
use muster_core::status::{HeadState, WorkingCounts};
use muster_core::time::Timestamp;
use muster_store::commands::{Accept, Mirrored, Observe, ObservedCluster};
use muster_store::reads::{ActionQuery, ClusterQuery, ClusterSort};
use muster_store::{Direction, StoreError};

use crate::admission::submit;
use crate::context::Context;
use crate::events::{self, reason};
use crate::intent::orphan;
use crate::notify::Topic;
use crate::ports::provider::{Capabilities, ClusterTarget, Membership, Observed, Provider, WorldChange};
use crate::reconcile::individual::abort;
use crate::watchers::health;

/// Delay before the stream of changes is reopened.
const REOPEN_DELAY: Duration = Duration::from_secs(1);

/// The status reason of a cluster whose nodes ended with their machine.
const ENDED_WITH_MACHINE: &str = "HostRestarted: the machine restarted, which ended the nodes. They are not restarted \
                                  automatically: restart, scale or delete the cluster.";

/// The maximum of changes that are processed together.
const CHANGES_PER_BATCH: usize = 1024;

/// Observes the clusters of one provider for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>, provider: Arc<dyn Provider>) {
    let mut backlog = Backlog::default();
    let period: Duration = context.config.safety_period.into();
    loop {
        let mut changes = provider.changes().ready_chunks(CHANGES_PER_BATCH);
        loop {
            let some = tokio::select! {
                some = changes.next() => some,
                () = tokio::time::sleep(period), if backlog.has_work() => {
                    backlog.retry(&context, &provider).await;
                    continue;
                }
                () = context.stopping.cancelled() => return,
            };
            let Some(some) = some else { break };
            if some.contains(&WorldChange::Everything) {
                context.notifier.notify_all();
                backlog.everything = true;
                backlog.retry(&context, &provider).await;
                continue;
            }
            // One observation covers all earlier changes of a cluster.
            let Ok(clusters) = orphans::clusters_of(&context, &some).await else {
                backlog.everything = true;
                continue;
            };
            for id in &clusters {
                context.notifier.notify(Topic::World(*id));
            }
            Box::pin(backlog.observe_changed(&context, &provider, clusters)).await;
        }
        tokio::select! {
            () = tokio::time::sleep(REOPEN_DELAY) => {}
            () = context.stopping.cancelled() => return,
        }
    }
}

/// The outcome of an observation.
pub(crate) enum ObserveOutcome {
    /// Rows and world are in sync.
    InSync,
    /// Something is lost or unknown: the cluster is observed again until rows and world are in sync.
    Pending,
    /// Another engine holds the duty; if it dies, changes from now on may be missed.
    NotLeader,
}

impl From<Mirrored> for ObserveOutcome {
    fn from(mirrored: Mirrored) -> Self {
        match mirrored {
            Mirrored::Written => Self::InSync,
            // The action that holds the cluster observes it itself; the observer repeats the observation afterwards.
            Mirrored::Busy => Self::Pending,
            Mirrored::NotOurs => Self::NotLeader,
        }
    }
}

impl ObserveOutcome {
    /// Returns the outcome of an observation that is repeated, whatever was written.
    fn and_repeat(self) -> Self {
        match self {
            Self::InSync | Self::Pending => Self::Pending,
            Self::NotLeader => Self::NotLeader,
        }
    }
}

/// Clusters that have to be observed again.
#[derive(Default)]
struct Backlog {
    everything: bool,
    clusters: HashSet<ClusterId>,
}

impl Backlog {
    fn has_work(&self) -> bool {
        self.everything || !self.clusters.is_empty()
    }

    fn update(&mut self, id: ClusterId, outcome: Result<ObserveOutcome, StoreError>) {
        match outcome {
            Ok(ObserveOutcome::InSync) => drop(self.clusters.remove(&id)),
            Ok(ObserveOutcome::Pending) => drop(self.clusters.insert(id)),
            Ok(ObserveOutcome::NotLeader) => self.add_everything(),
            Err(error) => {
                tracing::warn!(%error, "cannot record an observation");
                self.clusters.insert(id);
            }
        }
    }

    fn add_everything(&mut self) {
        // `everything` includes these clusters.
        self.clusters.clear();
        self.everything = true;
    }

    /// Returns true if this engine holds the duty; if not, or if unknown, the backlog is kept.
    async fn holds_duty(&mut self, context: &Context, provider: &Arc<dyn Provider>) -> bool {
        let duty = duty(provider);
        match context.holds_duty(&duty).await {
            Ok(held_by_us) => {
                if !held_by_us {
                    self.add_everything();
                }
                held_by_us
            }
            Err(error) => {
                tracing::warn!(%error, duty, "cannot read who holds the duty");
                false
            }
        }
    }

    async fn observe_changed(
        &mut self,
        context: &Context,
        provider: &Arc<dyn Provider>,
        changed: HashSet<ClusterId>,
    ) {
        self.clusters.extend(&changed);
        if !self.holds_duty(context, provider).await {
            return;
        }
        let changed: Vec<ClusterId> = changed.into_iter().collect();
        let Some(locked) = locked(context, &changed).await else { return };
        for id in changed {
            if context.stopping.is_cancelled() {
                return;
            }
            let outcome = observe_cluster(context, provider, id, Trigger::changed(&locked, id)).await;
            self.update(id, outcome);
        }
    }

    async fn retry(&mut self, context: &Context, provider: &Arc<dyn Provider>) {
        if !self.holds_duty(context, provider).await {
            return;
        }
        if std::mem::take(&mut self.everything)
            && let Err(error) = Box::pin(self.observe_all(context, provider)).await
        {
            tracing::warn!(%error, "cannot observe all clusters");
            self.everything = true;
        }
        let backlog: Vec<ClusterId> = self.clusters.iter().copied().collect();
        let Some(locked) = locked(context, &backlog).await else { return };
        // An action that holds a cluster observes it itself, and losses before the action are recorded already.
        for id in backlog.into_iter().filter(|id| !locked.contains(id)) {
            if self.everything || context.stopping.is_cancelled() {
                return;
            }
            let outcome = observe_cluster(context, provider, id, Trigger::Retry).await;
            self.update(id, outcome);
        }
    }
}

/// The page size when all clusters are observed.
const PAGE_SIZE: u32 = 200;

impl Backlog {
    /// Observes every cluster of the instance: changes may have been missed.
    async fn observe_all(
        &mut self,
        context: &Context,
        provider: &Arc<dyn Provider>,
    ) -> Result<(), StoreError> {
        let mut query = ClusterQuery {
            instance: Some(provider.instance().clone()),
            sort: vec![(ClusterSort::InitAt, Direction::Ascending)],
            limit: Some(PAGE_SIZE),
            ..ClusterQuery::default()
        };
        let operator = Arc::clone(provider).operator_provider();
        let mut discovered: HashSet<ClusterId> =
            operator.into_iter().flat_map(|operator| operator.discovered()).collect();
        loop {
            let page = context.store.clusters(&query).await?;
            let ids: Vec<ClusterId> = page.items.iter().map(|cluster| cluster.id).collect();
            let locked = context.store.held(&ids).await?;
            for id in ids {
                discovered.remove(&id);
                let outcome = observe_cluster(context, provider, id, Trigger::changed(&locked, id)).await;
                self.update(id, outcome);
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
            let outcome = observe_cluster(context, provider, id, Trigger::Changed).await;
            self.update(id, outcome);
            if self.everything || context.stopping.is_cancelled() {
                return Ok(());
            }
        }
        for node in context.store.orphans(provider.instance()).await? {
            let id = orphan::id(node.id);
            let outcome = observe_cluster(context, provider, id, Trigger::Changed).await;
            self.update(id, outcome);
            if self.everything || context.stopping.is_cancelled() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Returns the name of the duty, which one engine at a time holds for an instance.
pub(crate) fn duty(provider: &Arc<dyn Provider>) -> String {
    format!("observer/{}", provider.instance())
}

/// Returns those of these clusters that an action holds; none if that is unknown, and the clusters are observed later.
async fn locked(context: &Context, ids: &[ClusterId]) -> Option<HashSet<ClusterId>> {
    let locked = context.store.held(ids).await;
    locked.inspect_err(|error| tracing::warn!(%error, "cannot read which clusters actions hold")).ok()
}

/// The trigger of an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trigger {
    /// The cluster changed.
    Changed,
    /// The cluster changed while an action holds it, which observes the cluster itself.
    ChangedWhileLocked,
    /// An earlier observation is still pending.
    Retry,
}

impl Trigger {
    fn changed(locked: &HashSet<ClusterId>, id: ClusterId) -> Self {
        if locked.contains(&id) { Self::ChangedWhileLocked } else { Self::Changed }
    }
}

/// Observes one cluster, records changes, and submits healing where something is lost.
///
/// While an action holds the cluster, only the first observation records losses: later ones would record them again.
async fn observe_cluster(
    context: &Context,
    provider: &Arc<dyn Provider>,
    id: ClusterId,
    trigger: Trigger,
) -> Result<ObserveOutcome, StoreError> {
    let row = match context.store.cluster(id).await? {
        None if discovery::discover(context, provider, duty(provider), id).await? => {
            context.store.cluster(id).await?
        }
        row => row,
    };
    let cluster = match row {
        Some(cluster) if cluster.deleted_at.is_none() => cluster,
        Some(history) => return leftovers::collect(context, provider, &history).await,
        None => return orphans::observe_orphan(context, provider, id).await,
    };
    let kind = &cluster.profile_type;
    let Some(capabilities) = provider.capabilities(kind, cluster.flavor.as_deref()) else {
        return Ok(ObserveOutcome::InSync);
    };
    let delegated = matches!(capabilities.membership, Membership::Delegated(_));
    if delegated && trigger == Trigger::ChangedWhileLocked {
        return Ok(ObserveOutcome::Pending);
    }
    let Some(profile) = context.store.profile(cluster.profile_id).await? else {
        return Ok(ObserveOutcome::InSync);
    };
    let nodes = context.store.members(id).await?;
    let target = ClusterTarget { cluster: &cluster, profile: &profile };
    let observation = context.stopping.run_until_cancelled(provider.observe(target, &nodes));
    // Unknown changes nothing: the last known state stays.
    let Some(Ok(observed)) = observation.await else { return Ok(ObserveOutcome::Pending) };
    let duty = duty(provider);
    if delegated {
        return Box::pin(delegated::record_observation(context, duty, cluster, nodes, observed)).await;
    }
    let lost = lost_nodes(&nodes, &observed);
    if lost.is_empty() {
        return heal_due_nodes(context, duty, &cluster, &capabilities, &nodes, observed).await;
    }
    if trigger == Trigger::Retry && cluster.status.is_transitional() {
        return Ok(ObserveOutcome::Pending);
    }
    let now = context.clock.now();
    let events = loss_events(&lost, &observed, now);
    let with_machine = lost.iter().any(|node| ended_with_machine(node, &observed));
    let healing_disabled = abort::is_healing_disabled(&cluster, &capabilities);
    let heals = !with_machine && heals_by_default(context, &cluster, &capabilities).await?;
    let mut observed_state = observed_cluster(&cluster, &nodes, lost, heals, &observed, now);
    observed_state.nodes.iter_mut().for_each(|node| node.set_healing_due(heals));
    if with_machine && observed_state.status.is_some() {
        observed_state.status = Some((ClusterStatus::Critical, ENDED_WITH_MACHINE.to_owned()));
    } else if let Some((_, reason_text)) = observed_state.status.as_mut().filter(|_| healing_disabled) {
        *reason_text = abort::with_healing_disabled(reason_text);
    }
    let healing = heals.then(|| submit::healing(context, &cluster)).into_iter().collect();
    record_losses(context, duty, observed_state, events, healing).await
}

/// Records lost nodes of a cluster, and submits their healing in the same commit.
async fn record_losses(
    context: &Context,
    duty: String,
    observed: ObservedCluster,
    events: Vec<Event>,
    healing: Vec<Accept>,
) -> Result<ObserveOutcome, StoreError> {
    let (engine, now) = (context.lease().id, context.clock.now());
    let (clusters, orphans) = (vec![observed], Vec::new());
    let command = Observe { duty, engine, clusters, orphans, events, healing, now };
    Ok(ObserveOutcome::from(context.store.observe(command).await?).and_repeat())
}

/// Returns true if lost nodes of a cluster are healed without a request. A health policy replaces this healing.
async fn heals_by_default(
    context: &Context,
    cluster: &Cluster,
    capabilities: &Capabilities,
) -> Result<bool, StoreError> {
    Ok(capabilities.heals_by_default
        && !abort::is_healing_disabled(cluster, capabilities)
        && !health::has_health_policy(context, cluster.id).await?)
}

/// Submits the healing of nodes whose loss was recorded while another action was in progress, or by a check.
async fn heal_due_nodes(
    context: &Context,
    duty: String,
    cluster: &Cluster,
    capabilities: &Capabilities,
    nodes: &[Node],
    observed: Observed,
) -> Result<ObserveOutcome, StoreError> {
    let is_due = |node: &&Node| node.is_healing_due() && observed.of(node.id).loss().is_some();
    let due: Vec<Node> = nodes.iter().filter(is_due).cloned().collect();
    if due.is_empty() || !heals_by_default(context, cluster, capabilities).await? {
        return Ok(ObserveOutcome::InSync);
    }
    let statuses: Vec<ActionStatus> =
        ActionStatus::ALL.iter().copied().filter(|status| !status.is_final()).collect();
    let open = ActionQuery { cluster: Some(cluster.id), statuses, limit: Some(1), ..ActionQuery::default() };
    if !context.store.actions(&open).await?.items.is_empty() {
        return Ok(ObserveOutcome::Pending);
    }
    let mut state = observed_cluster(cluster, nodes, due, true, &observed, context.clock.now());
    // The status shows the loss already.
    state.status = None;
    record_losses(context, duty, state, Vec::new(), vec![submit::healing(context, cluster)]).await
}

/// Returns the nodes that worked and certainly do not any more, with the error status and its reason.
fn lost_nodes(nodes: &[Node], observed: &Observed) -> Vec<Node> {
    let lost = |node: &Node| {
        let reason = observed.of(node.id).loss()?.to_owned();
        node.was_working().then(|| {
            let mut lost = Node { status: NodeStatus::Error, status_reason: reason, ..node.clone() };
            // The devices of a lost node are free.
            lost.set_gpu_devices(&[]);
            lost
        })
    };
    // A node whose role only a newer version knows is left to engines of that version.
    nodes.iter().filter(|node| node.has_known_role()).filter_map(lost).collect()
}

fn ended_with_machine(node: &Node, observed: &Observed) -> bool {
    observed.of(node.id) == Observation::HostRestarted
}

/// Returns the events of lost nodes.
fn loss_events(lost: &[Node], observed: &Observed, now: Timestamp) -> Vec<Event> {
    let loss_event = |node: &Node| {
        let restarted = ended_with_machine(node, observed);
        let reason = if restarted { reason::HOST_RESTARTED } else { reason::NODE_LOST };
        events::of_node(None, node, Level::Warn, reason, &node.status_reason, now)
    };
    lost.iter().map(loss_event).collect()
}

fn observed_cluster(
    cluster: &Cluster,
    nodes: &[Node],
    lost: Vec<Node>,
    heals: bool,
    observed: &Observed,
    now: Timestamp,
) -> ObservedCluster {
    let gone: HashSet<NodeId> = lost.iter().map(|node| node.id).collect();
    let mut counts = WorkingCounts::of(cluster, nodes.iter().filter(|node| !gone.contains(&node.id)));
    let mut after = cluster.clone();
    counts.write_to(&mut after);
    observed.write_contact_to(&mut after);
    after.observed.at = Some(now);
    if heals && counts.head == HeadState::Lost {
        // The recovery of the head is submitted in the same commit.
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
    let read_at = cluster.updated_at;
    ObservedCluster { id: cluster.id, read_at, observed: after.observed, status, nodes: lost }
}
