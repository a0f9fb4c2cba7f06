//! Deletes clusters whose idle timeout or lifetime is over.
//!
//! One engine at a time does this for an instance. It sleeps until the next limit can be reached; commits wake it when
//! that may have become earlier. Decisions are committed only if nothing has changed meanwhile.

pub(crate) mod decide;
pub(crate) mod messages;
pub(crate) mod timers;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::limits::{Activity, Watched};
use muster_core::profile::Profile;
use muster_core::time::Timestamp;
use muster_store::StoreError;
use muster_store::commands::{Expire, Expired, NoteWatched, TakeDuty};

use crate::admission::submit;
use crate::context::Context;
use crate::ports::provider::{ClusterTarget, Provider};
use crate::watchers::change_feed::{ChangeFeed, Heard};
use crate::watchers::expiry::decide::{Decision, Ending, Memory, asks, decide};
use crate::watchers::expiry::timers::Timers;

/// Clusters that are evaluated together.
const AT_ONCE: usize = 100;

/// Concurrent activity queries.
const ASKED_AT_ONCE: usize = 16;

/// Timeout of an activity query; a cluster that does not answer counts as used.
const PATIENCE: Duration = Duration::from_secs(5);

/// Watches the clusters of one provider for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>, provider: Arc<dyn Provider>) {
    let mut feed = ChangeFeed::new(context.store.subscribe());
    let duty = format!("limits/{}", provider.instance());
    let mut watch = Watch { context: &context, provider, duty, timers: Timers::default(), all: true };
    loop {
        let working = context.stopping.run_until_cancelled(Box::pin(watch.work()));
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
            watch.all = true;
            tokio::select! {
                () = tokio::time::sleep(context.config.safety_period.into()) => {}
                () = context.stopping.cancelled() => return,
            }
            continue;
        }
        let next = watch.timers.next();
        let moment = async {
            match next {
                Some(at) => context.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = feed.listen() => {}
            () = moment => {}
            () = context.stopping.cancelled() => return,
        }
        watch.note(feed.heard());
    }
}

struct Watch<'e> {
    context: &'e Context,
    provider: Arc<dyn Provider>,
    duty: String,
    timers: Timers,
    /// All clusters with limits have to be read.
    all: bool,
}

impl Watch<'_> {
    fn note(&mut self, Heard { all, clusters }: Heard) {
        self.all |= all;
        for id in clusters {
            self.timers.at_once(id);
        }
    }

    /// Evaluates every due cluster; false if another engine holds the duty.
    async fn work(&mut self) -> Result<bool, StoreError> {
        if self.all {
            let limited = self.context.store.limited(self.provider.instance()).await?;
            // Known clusters that have no limits any more are removed below.
            for id in limited.into_iter().chain(self.timers.known()) {
                self.timers.at_once(id);
            }
            self.all = false;
        }
        loop {
            let due = self.timers.due(self.context.clock.now(), AT_ONCE);
            if due.is_empty() {
                return Ok(true);
            }
            let limited = self.context.store.limited_among(self.provider.instance(), &due).await?;
            let there: HashSet<ClusterId> = limited.iter().map(|(cluster, _)| cluster.id).collect();
            for id in due.iter().filter(|id| !there.contains(id)) {
                self.timers.forget(*id);
            }
            if limited.is_empty() {
                continue;
            }
            if !self.is_ours().await? || !self.look(limited).await? {
                return Ok(false);
            }
        }
    }

    async fn is_ours(&self) -> Result<bool, StoreError> {
        let take = TakeDuty { name: self.duty.clone(), engine: self.context.lease().id };
        let ours = self.context.store.take_duty(take).await?;
        self.context.metrics.duty(&self.duty, ours);
        Ok(ours)
    }

    /// Queries, decides and writes for some clusters; false if another engine holds the duty now.
    async fn look(&mut self, clusters: Vec<(Cluster, Profile)>) -> Result<bool, StoreError> {
        let said = self.ask(&clusters).await;
        let now = self.context.clock.now();
        let mut noted = Vec::new();
        let mut events = Vec::new();
        let mut ending = Vec::new();
        for (cluster, _) in clusters {
            let (activity, mut memory) = (said.get(&cluster.id).copied(), self.timers.memory(cluster.id));
            let Decision { end, warn, watched, next } = decide(&cluster, activity, memory, now);
            memory.asked = activity.map(|_| now).or(memory.asked);
            self.timers.set(cluster.id, next, memory);
            let after = Cluster { watched, ..cluster };
            events.extend(warn.into_iter().map(|of| messages::warning(&after, of, now)));
            if after.watched != cluster.watched {
                noted.push((after.id, after.watched));
            }
            ending.extend(end.map(|end| (after, end)));
        }
        if !noted.is_empty() && !self.write(noted, events).await? {
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
    async fn ask(&self, clusters: &[(Cluster, Profile)]) -> HashMap<ClusterId, Activity> {
        let now = self.context.clock.now();
        let turn = |(cluster, _): &&(Cluster, Profile)| asks(cluster, self.timers.memory(cluster.id), now);
        let ask = |(cluster, profile): &(Cluster, Profile)| {
            let (provider, cluster, profile) = (&self.provider, cluster.clone(), profile.clone());
            async move {
                let target = ClusterTarget { cluster: &cluster, profile: &profile };
                let said = tokio::time::timeout(PATIENCE, provider.activity(target)).await;
                (cluster.id, said.ok().and_then(Result::ok).unwrap_or(Activity::Unknown))
            }
        };
        let asked: Vec<_> = clusters.iter().filter(turn).map(ask).collect();
        stream::iter(asked).buffer_unordered(ASKED_AT_ONCE).collect().await
    }

    async fn write(
        &self,
        notes: Vec<(ClusterId, Watched)>,
        events: Vec<muster_core::event::Event>,
    ) -> Result<bool, StoreError> {
        let note = NoteWatched { duty: self.duty.clone(), engine: self.context.lease().id, notes, events };
        self.context.store.note_watched(note).await
    }

    /// Deletes an expired cluster; false if another engine holds the duty now.
    async fn end(&mut self, cluster: &Cluster, end: Ending, now: Timestamp) -> Result<bool, StoreError> {
        let (reason, message) = messages::end(cluster, end);
        let expire = Expire {
            duty: self.duty.clone(),
            engine: self.context.lease().id,
            cluster: cluster.id,
            limits: cluster.limits,
            unused: (end == Ending::Idle).then_some(cluster.updated_at),
            accept: submit::deletion(self.context, cluster, reason, &message),
        };
        let memory = Memory { tried: Some(now), ..self.timers.memory(cluster.id) };
        let tried = match self.context.store.expire(expire).await {
            Ok(Expired::NotOurs) => return Ok(false),
            Ok(Expired::Deleting(action)) => {
                tracing::info!(action = %action.id, cluster = %cluster.id, reason, "its time is over");
                true
            }
            Ok(Expired::Spared) => false,
            Err(StoreError::NotFound { .. }) => true,
            Err(error) => return Err(error),
        };
        if tried {
            let next = decide(cluster, None, memory, now).next;
            self.timers.set(cluster.id, next, memory);
        }
        Ok(true)
    }
}
