//! Deletes clusters whose idle timeout or lifetime is over.
//!
//! One engine at a time does this for an instance. The watcher sleeps until the next limit can be reached; commits that
//! may change this time wake it. Decisions are committed only if nothing has changed meanwhile.

pub(crate) mod decide;
pub(crate) mod messages;
pub(crate) mod timers;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::limits::{Activity, ExpiryState};
use muster_core::profile::Profile;
use muster_core::time::Timestamp;
use muster_store::StoreError;
use muster_store::commands::{Expire, Expired, RecordExpiryState};
use muster_store::reads::JobUse;

use crate::admission::submit;
use crate::context::Context;
use crate::ports::provider::activity::query_activity;
use crate::ports::provider::{ClusterTarget, Provider};
use crate::watchers::change_feed::{ChangeFeed, ChangedClusters};
use crate::watchers::expiry::decide::{ExpiryDecision, ExpiryReason, WatchState, decide, is_query_due};
use crate::watchers::expiry::timers::ExpiryTimers;

/// The maximum of clusters that are evaluated together.
const BATCH: usize = 100;

/// The maximum of concurrent activity queries.
const MAX_CONCURRENT: usize = 16;

/// Watches the clusters of one provider for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>, provider: Arc<dyn Provider>) {
    let mut feed = ChangeFeed::new(context.store.subscribe());
    let duty = format!("limits/{}", provider.instance());
    let mut watcher =
        ExpiryWatcher { context: &context, provider, duty, timers: ExpiryTimers::default(), all: true };
    loop {
        let working = context.stopping.run_until_cancelled(Box::pin(watcher.work()));
        let Some(worked) = working.await else { return };
        let retry = match worked {
            Ok(ours) => !ours,
            Err(error) => {
                tracing::warn!(%error, "cannot watch over the limits of clusters");
                true
            }
        };
        if retry {
            // The engine that holds the duty may die: evaluate everything when this one gets it.
            watcher.all = true;
            tokio::select! {
                () = tokio::time::sleep(context.config.safety_period.into()) => {}
                () = context.stopping.cancelled() => return,
            }
            continue;
        }
        let next = watcher.timers.next();
        let moment = async {
            match next {
                Some(at) => context.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = feed.wait_for_change() => {}
            () = moment => {}
            () = context.stopping.cancelled() => return,
        }
        watcher.schedule(feed.take_changes());
    }
}

/// Combines the activity of a cluster with its jobs: an open job uses the cluster, whatever the framework reports.
fn with_jobs(reported: Activity, jobs: Option<JobUse>) -> Activity {
    match (reported, jobs) {
        (_, Some(JobUse::Open)) => Activity::Busy,
        (Activity::IdleSince(since), Some(JobUse::Until(end))) => Activity::IdleSince(since.max(end)),
        (reported, _) => reported,
    }
}

struct ExpiryWatcher<'e> {
    context: &'e Context,
    provider: Arc<dyn Provider>,
    duty: String,
    timers: ExpiryTimers,
    /// True if all clusters with limits have to be read.
    all: bool,
}

impl ExpiryWatcher<'_> {
    fn schedule(&mut self, ChangedClusters { all, clusters, .. }: ChangedClusters) {
        self.all |= all;
        for id in clusters {
            self.timers.schedule_now(id);
        }
    }

    /// Evaluates every due cluster; returns false if another engine holds the duty.
    async fn work(&mut self) -> Result<bool, StoreError> {
        if self.all {
            let limited = self.context.store.limited(self.provider.instance()).await?;
            // Known clusters that have no limits any more are removed below.
            for id in limited.into_iter().chain(self.timers.known()) {
                self.timers.schedule_now(id);
            }
            self.all = false;
        }
        loop {
            let due = self.timers.due(self.context.clock.now(), BATCH);
            if due.is_empty() {
                return Ok(true);
            }
            let limited = self.context.store.limited_among(self.provider.instance(), &due).await?;
            let still_limited: HashSet<ClusterId> = limited.iter().map(|(cluster, _)| cluster.id).collect();
            for id in due.iter().filter(|id| !still_limited.contains(id)) {
                self.timers.forget(*id);
            }
            if limited.is_empty() {
                continue;
            }
            if !self.context.holds_duty(&self.duty).await? || !self.evaluate(limited).await? {
                return Ok(false);
            }
        }
    }

    /// Queries the activity of some clusters, decides and records; returns false if another engine holds the duty now.
    async fn evaluate(&mut self, clusters: Vec<(Cluster, Profile)>) -> Result<bool, StoreError> {
        let ids: Vec<ClusterId> = clusters.iter().map(|(cluster, _)| cluster.id).collect();
        let jobs = self.context.store.job_use(&ids).await?;
        let mut activities = self.query_activity(&clusters).await;
        for (id, activity) in &mut activities {
            *activity = with_jobs(*activity, jobs.get(id).copied());
        }
        let now = self.context.clock.now();
        let mut states = Vec::new();
        let mut events = Vec::new();
        let mut ending = Vec::new();
        for (cluster, _) in clusters {
            let (activity, mut watch_state) =
                (activities.get(&cluster.id).copied(), self.timers.watch_state(cluster.id));
            let ExpiryDecision { end, warn, expiry_state, next } =
                decide(&cluster, activity, watch_state, now);
            watch_state.queried_at = activity.map(|_| now).or(watch_state.queried_at);
            self.timers.set(cluster.id, next, watch_state);
            let after = Cluster { expiry_state, ..cluster };
            events.extend(warn.into_iter().map(|of| messages::warning(&after, of, now)));
            if after.expiry_state != cluster.expiry_state {
                states.push((after.id, after.expiry_state));
            }
            ending.extend(end.map(|end| (after, end)));
        }
        if !states.is_empty() && !self.write(states, events).await? {
            return Ok(false);
        }
        for (cluster, end) in ending {
            if !self.end(&cluster, end, now).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Queries the activity of clusters whose query is due.
    async fn query_activity(&self, clusters: &[(Cluster, Profile)]) -> HashMap<ClusterId, Activity> {
        let now = self.context.clock.now();
        let is_due = |(cluster, _): &&(Cluster, Profile)| {
            is_query_due(cluster, self.timers.watch_state(cluster.id), now)
        };
        let query = |(cluster, profile): &(Cluster, Profile)| {
            let (provider, cluster, profile) = (&self.provider, cluster.clone(), profile.clone());
            async move {
                let target = ClusterTarget { cluster: &cluster, profile: &profile };
                (cluster.id, query_activity(provider.as_ref(), target).await)
            }
        };
        let queries: Vec<_> = clusters.iter().filter(is_due).map(query).collect();
        stream::iter(queries).buffer_unordered(MAX_CONCURRENT).collect().await
    }

    async fn write(
        &self,
        states: Vec<(ClusterId, ExpiryState)>,
        events: Vec<muster_core::event::Event>,
    ) -> Result<bool, StoreError> {
        let schedule =
            RecordExpiryState { duty: self.duty.clone(), engine: self.context.lease().id, states, events };
        self.context.store.record_expiry_state(schedule).await
    }

    /// Deletes an expired cluster; returns false if another engine holds the duty now.
    async fn end(
        &mut self,
        cluster: &Cluster,
        end: ExpiryReason,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (reason, message) = messages::end(cluster, end);
        let expire = Expire {
            duty: self.duty.clone(),
            engine: self.context.lease().id,
            cluster: cluster.id,
            limits: cluster.limits,
            unused: (end == ExpiryReason::Idle).then_some(cluster.updated_at),
            accept: submit::deletion(self.context, cluster, reason, &message),
        };
        let watch_state =
            WatchState { deletion_requested_at: Some(now), ..self.timers.watch_state(cluster.id) };
        let requested = match self.context.store.expire(expire).await {
            Ok(Expired::NotOurs) => return Ok(false),
            Ok(Expired::Deleting(action)) => {
                tracing::info!(action = %action.id, cluster = %cluster.id, reason, "its time is over");
                true
            }
            Ok(Expired::Spared) => false,
            Err(StoreError::NotFound { .. }) => true,
            Err(error) => return Err(error),
        };
        if requested {
            let next = decide(cluster, None, watch_state, now).next;
            self.timers.set(cluster.id, next, watch_state);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[rstest]
    #[case::no_job(Activity::IdleSince(at(5)), None, Activity::IdleSince(at(5)))]
    #[case::a_job_that_leaves_the_framework_alone(
        Activity::IdleSince(at(5)),
        Some(JobUse::Open),
        Activity::Busy
    )]
    #[case::after_a_job(Activity::IdleSince(at(5)), Some(JobUse::Until(at(9))), Activity::IdleSince(at(9)))]
    #[case::long_after_a_job(
        Activity::IdleSince(at(9)),
        Some(JobUse::Until(at(5))),
        Activity::IdleSince(at(9))
    )]
    #[case::busy(Activity::Busy, Some(JobUse::Until(at(5))), Activity::Busy)]
    #[case::unknown(Activity::Unknown, Some(JobUse::Until(at(5))), Activity::Unknown)]
    fn a_job_uses_its_cluster(
        #[case] reported: Activity,
        #[case] jobs: Option<JobUse>,
        #[case] expected: Activity,
    ) {
        assert_eq!(with_jobs(reported, jobs), expected);
    }
}
