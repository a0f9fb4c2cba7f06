//! Checks the health of clusters that have a health policy.
//!
//! One engine at a time does this for an instance. It checks at each policy's interval and when the provider reports a
//! change, and submits recoveries of unhealthy nodes. Other actions on a cluster go first.

pub(crate) mod decide;
pub(crate) mod detect;
pub(crate) mod recover;

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use muster_core::ids::ClusterId;
use muster_core::policy::health::HealthPolicySettings;
use muster_core::time::Timestamp;
use muster_store::StoreError;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::context::Context;
use crate::ports::provider::Provider;
use crate::watchers::change_feed::{ChangeFeed, ChangedClusters};
use crate::watchers::health::detect::{HealthCheckOutcome, RequestedRecoveries};

/// The maximum of clusters that are checked concurrently.
const MAX_CONCURRENT: usize = 64;

/// Watches the clusters of one provider for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>, provider: Arc<dyn Provider>) {
    let mut feed = ChangeFeed::new(context.store.subscribe());
    let duty = format!("health/{}", provider.instance());
    let checks = FuturesUnordered::new();
    let mut watcher =
        HealthWatcher { context: Arc::clone(&context), provider, duty, clusters: HashMap::new(), checks };
    let mut changes = ChangedClusters { all: true, ..ChangedClusters::default() };
    loop {
        let working = context.stopping.run_until_cancelled(Box::pin(watcher.work(&changes)));
        let Some(worked) = working.await else { return };
        let holds_duty = worked.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot check the health of clusters");
            false
        });
        let next = watcher.next();
        let moment = async {
            match next {
                Some(at) if holds_duty => context.clock.sleep_until(at).await,
                // The engine that holds the duty may die: evaluate everything when this one gets it.
                _ if !holds_duty => tokio::time::sleep(context.config.safety_period.into()).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = feed.wait_for_change() => {}
            () = moment => {}
            Some(outcome) = watcher.checks.next() => watcher.record_outcome(outcome),
            () = context.stopping.cancelled() => return,
        }
        let more = feed.take_changes();
        changes = if holds_duty { more } else { ChangedClusters { all: true, ..more } };
    }
}

/// Returns true if a cluster has a health policy.
pub(crate) async fn has_health_policy(context: &Context, id: ClusterId) -> Result<bool, StoreError> {
    Ok(!context.store.health_bindings(None, Some(&[id])).await?.is_empty())
}

/// A cluster with a health policy.
struct WatchedCluster {
    settings: HealthPolicySettings,
    /// The time of the next check.
    at: Timestamp,
    /// The running check, which ends when the policy of the cluster is detached or replaced.
    check: Option<DropGuard>,
    /// True if the cluster has changed since the check began.
    changed: bool,
    /// True if another action blocked a recovery: the cluster is checked again as soon as it has changed.
    blocked: bool,
    /// Nodes whose recovery was requested; not requested again before the next regular check.
    requested: RequestedRecoveries,
}

struct HealthWatcher {
    context: Arc<Context>,
    provider: Arc<dyn Provider>,
    duty: String,
    clusters: HashMap<ClusterId, WatchedCluster>,
    /// Running checks: a cluster whose nodes respond slowly does not delay the others.
    checks: FuturesUnordered<BoxFuture<'static, Option<HealthCheckOutcome>>>,
}

impl HealthWatcher {
    /// Returns the time of the next check; none while the limit of concurrent checks is reached.
    fn next(&self) -> Option<Timestamp> {
        let waiting = self
            .clusters
            .values()
            .filter(|cluster| cluster.check.is_none() && self.checks.len() < MAX_CONCURRENT);
        waiting.map(|cluster| cluster.at).min()
    }

    /// Applies changes, and begins to check every due cluster; returns false if another engine holds the duty.
    async fn work(&mut self, changes: &ChangedClusters) -> Result<bool, StoreError> {
        self.reload_policies(changes).await?;
        let now = self.context.clock.now();
        let due = |cluster: &WatchedCluster| cluster.check.is_none() && cluster.at <= now;
        if !self.clusters.values().any(due) {
            return Ok(true);
        }
        if !self.context.holds_duty(&self.duty).await? {
            return Ok(false);
        }
        let free = MAX_CONCURRENT.saturating_sub(self.checks.len());
        for (id, cluster) in self.clusters.iter_mut().filter(|(_, cluster)| due(cluster)).take(free) {
            let policy_replaced = CancellationToken::new();
            cluster.check = Some(policy_replaced.clone().drop_guard());
            let (settings, requested) = (cluster.settings.clone(), std::mem::take(&mut cluster.requested));
            let check = detect::check(
                Arc::clone(&self.context),
                Arc::clone(&self.provider),
                *id,
                settings,
                requested,
            );
            self.checks.push(Box::pin(async move {
                tokio::select! {
                    // The outcome of a check that has just ended must not be applied to the next policy either.
                    biased;
                    () = policy_replaced.cancelled() => None,
                    outcome = check => Some(outcome),
                }
            }));
        }
        Ok(true)
    }

    /// Applies the outcome of a check; there is none if the policy of the cluster was detached or replaced meanwhile.
    fn record_outcome(&mut self, outcome: Option<HealthCheckOutcome>) {
        let Some(HealthCheckOutcome { id, blocked, requested }) = outcome else { return };
        let now = self.context.clock.now();
        let Some(cluster) = self.clusters.get_mut(&id) else { return };
        let pause = match &blocked {
            Ok(_) => cluster.settings.interval(),
            Err(error) => {
                tracing::warn!(cluster = %id, %error, "cannot check its health");
                cluster.settings.interval().min(self.context.config.safety_period)
            }
        };
        cluster.blocked = blocked.unwrap_or(false);
        cluster.requested = requested;
        let due = cluster.changed && (cluster.blocked || cluster.settings.follows_events());
        cluster.at = if due { now } else { now.after(pause) };
        (cluster.check, cluster.changed) = (None, false);
    }

    /// Rereads the policies of changed clusters.
    async fn reload_policies(
        &mut self,
        ChangedClusters { all, clusters: changed, .. }: &ChangedClusters,
    ) -> Result<(), StoreError> {
        let ids: Vec<ClusterId> = changed.iter().copied().collect();
        if !*all && ids.is_empty() {
            return Ok(());
        }
        let among = (!*all).then_some(ids.as_slice());
        let bindings = self.context.store.health_bindings(Some(self.provider.instance()), among).await?;
        let now = self.context.clock.now();
        let mut known = HashMap::new();
        self.clusters.retain(|id, _| among.is_some_and(|ids| !ids.contains(id)) || bindings.contains_key(id));
        for (id, binding) in bindings {
            let Ok(settings) = binding.policy.settings::<HealthPolicySettings>() else { continue };
            let before = self.clusters.remove(&id).filter(|cluster| cluster.settings == settings);
            known.insert(id, WatchedCluster::refreshed(before, settings, now));
        }
        self.clusters.extend(known);
        Ok(())
    }
}

impl WatchedCluster {
    /// Returns the state of a cluster that has changed, or is new.
    fn refreshed(before: Option<Self>, settings: HealthPolicySettings, now: Timestamp) -> Self {
        let Some(before) = before else {
            // A policy that follows events checks at every change, without waiting for its interval.
            let at = if settings.follows_events() { now } else { now.after(settings.interval()) };
            let (changed, blocked) = (false, false);
            return Self {
                settings,
                at,
                check: None,
                changed,
                blocked,
                requested: RequestedRecoveries::new(),
            };
        };
        // A blocked recovery is retried at once.
        let at = if before.blocked || settings.follows_events() { now } else { before.at };
        Self { at, changed: before.check.is_some(), ..before }
    }
}
