//! Checks the health of clusters that have a health policy.
//!
//! One engine at a time does this for an instance. It checks at each policy's interval and when the provider reports a
//! change, and submits recoveries of unhealthy nodes. Other actions on a cluster go first.

pub(crate) mod decide;
pub(crate) mod look;
pub(crate) mod recover;

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use muster_core::ids::ClusterId;
use muster_core::policy::health::Settings;
use muster_core::time::Timestamp;
use muster_store::StoreError;
use muster_store::commands::TakeDuty;

use crate::context::Context;
use crate::ports::provider::Provider;
use crate::watchers::change_feed::{ChangeFeed, Heard};
use crate::watchers::health::look::{Asked, Looked};

/// Clusters that are checked concurrently.
const AT_ONCE: usize = 64;

/// Watches the clusters of one provider for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>, provider: Arc<dyn Provider>) {
    let mut feed = ChangeFeed::new(context.store.subscribe());
    let duty = format!("health/{}", provider.instance());
    let looks = FuturesUnordered::new();
    let mut watch = Watch { context: Arc::clone(&context), provider, duty, cared: HashMap::new(), looks };
    let mut heard = Heard { all: true, ..Heard::default() };
    loop {
        let working = context.stopping.run_until_cancelled(Box::pin(watch.work(&heard)));
        let Some(worked) = working.await else { return };
        let ours = worked.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot check the health of clusters");
            false
        });
        let next = watch.next();
        let moment = async {
            match next {
                Some(at) if ours => context.clock.sleep_until(at).await,
                // The engine that holds the duty may die: evaluate everything when this one gets it.
                _ if !ours => tokio::time::sleep(context.config.safety_period.into()).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = feed.listen() => {}
            () = moment => {}
            Some(looked) = watch.looks.next() => watch.take_in(looked),
            () = context.stopping.cancelled() => return,
        }
        let more = feed.heard();
        heard = if ours { more } else { Heard { all: true, ..more } };
    }
}

/// Whether a cluster has a health policy.
pub(crate) async fn is_cared_for(context: &Context, id: ClusterId) -> Result<bool, StoreError> {
    Ok(!context.store.health_bindings(None, Some(&[id])).await?.is_empty())
}

/// A cluster with a health policy.
struct Cared {
    settings: Settings,
    /// When it is checked next.
    at: Timestamp,
    /// A check is running.
    looking: bool,
    /// It has changed since the check began.
    changed: bool,
    /// Another action blocked a recovery: check again as soon as the cluster has changed.
    open: bool,
    /// Nodes whose recovery was requested; not requested again before the next regular check.
    asked: Asked,
}

struct Watch {
    context: Arc<Context>,
    provider: Arc<dyn Provider>,
    duty: String,
    cared: HashMap<ClusterId, Cared>,
    /// Running checks: a cluster whose nodes respond slowly does not delay the others.
    looks: FuturesUnordered<BoxFuture<'static, Looked>>,
}

impl Watch {
    /// When the next check is due; none while the limit of concurrent checks is reached.
    fn next(&self) -> Option<Timestamp> {
        let waiting = self.cared.values().filter(|cared| !cared.looking && self.looks.len() < AT_ONCE);
        waiting.map(|cared| cared.at).min()
    }

    /// Applies changes, and begins to check every due cluster; false if another engine holds the duty.
    async fn work(&mut self, heard: &Heard) -> Result<bool, StoreError> {
        self.note(heard).await?;
        let now = self.context.clock.now();
        let due = |cared: &Cared| !cared.looking && cared.at <= now;
        if !self.cared.values().any(due) {
            return Ok(true);
        }
        let take = TakeDuty { name: self.duty.clone(), engine: self.context.lease().id };
        let ours = self.context.store.take_duty(take).await?;
        self.context.metrics.duty(&self.duty, ours);
        if !ours {
            return Ok(false);
        }
        let room = AT_ONCE.saturating_sub(self.looks.len());
        for (id, cared) in self.cared.iter_mut().filter(|(_, cared)| due(cared)).take(room) {
            cared.looking = true;
            let (settings, asked) = (cared.settings.clone(), std::mem::take(&mut cared.asked));
            let look = look::at(Arc::clone(&self.context), Arc::clone(&self.provider), *id, settings, asked);
            self.looks.push(Box::pin(look));
        }
        Ok(true)
    }

    /// Applies the outcome of a check.
    fn take_in(&mut self, Looked { id, in_the_way, asked }: Looked) {
        let now = self.context.clock.now();
        // Otherwise its policy was detached or replaced.
        let Some(cared) = self.cared.get_mut(&id).filter(|cared| cared.looking) else { return };
        let pause = match &in_the_way {
            Ok(_) => cared.settings.interval(),
            Err(error) => {
                tracing::warn!(cluster = %id, %error, "cannot check its health");
                cared.settings.interval().min(self.context.config.safety_period)
            }
        };
        cared.open = in_the_way.unwrap_or(false);
        cared.asked = asked;
        let heard = cared.changed && (cared.open || cared.settings.follows_events());
        cared.at = if heard { now } else { now.after(pause) };
        (cared.looking, cared.changed) = (false, false);
    }

    /// Rereads the policies of changed clusters.
    async fn note(&mut self, Heard { all, clusters }: &Heard) -> Result<(), StoreError> {
        let ids: Vec<ClusterId> = clusters.iter().copied().collect();
        if !*all && ids.is_empty() {
            return Ok(());
        }
        let among = (!*all).then_some(ids.as_slice());
        let bindings = self.context.store.health_bindings(Some(self.provider.instance()), among).await?;
        let now = self.context.clock.now();
        let mut known = HashMap::new();
        self.cared.retain(|id, _| among.is_some_and(|ids| !ids.contains(id)) || bindings.contains_key(id));
        for (id, binding) in bindings {
            let Ok(settings) = binding.policy.settings::<Settings>() else { continue };
            let before = self.cared.remove(&id).filter(|cared| cared.settings == settings);
            known.insert(id, Cared::again(before, settings, now));
        }
        self.cared.extend(known);
        Ok(())
    }
}

impl Cared {
    /// A cluster that has changed, or is new.
    fn again(before: Option<Self>, settings: Settings, now: Timestamp) -> Self {
        let Some(before) = before else {
            // Providers that report events are not polled first.
            let at = if settings.follows_events() { now } else { now.after(settings.interval()) };
            let (looking, changed, open) = (false, false, false);
            return Self { settings, at, looking, changed, open, asked: Asked::new() };
        };
        // A blocked recovery is retried at once.
        let at = if before.open || settings.follows_events() { now } else { before.at };
        Self { at, changed: before.looking, ..before }
    }
}
