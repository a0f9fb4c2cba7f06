//! Looks after clusters that have a health policy.
//!
//! One engine at a time does so for an instance. It asks as often as each policy says, hears of what the provider
//! tells by itself, and asks for the recovery of nodes that do not work. Whatever else happens to a cluster goes first.

mod decide;
mod look;
mod recover;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::policy::health::{PollUrl, Settings};
use muster_core::time::Timestamp;
use muster_store::StoreError;
use muster_store::commands::TakeDuty;

use crate::ears::{Ears, Heard};
use crate::engine::Inner;
use crate::provider::Provider;

/// What came of asking a node by its URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// It answered as one that is well.
    Well,
    /// It answered something else.
    Unwell,
    /// It could not be connected to.
    Unreachable,
}

/// The port through which nodes are asked by URL.
#[async_trait]
pub trait Probe: Send + Sync {
    /// Asks once, and looks for the policy's pattern in the answer. It bounds its own time.
    async fn poll(&self, url: &str, options: &PollUrl) -> Polled;
}

/// Looks after the clusters of one provider for as long as the engine runs.
pub(crate) async fn run(inner: Arc<Inner>, provider: Arc<dyn Provider>) {
    let mut ears = Ears::new(inner.store.subscribe());
    let duty = format!("health/{}", provider.instance());
    let mut watch = Watch { inner: &inner, provider, duty, cared: HashMap::new() };
    let mut heard = Heard { all: true, ..Heard::default() };
    loop {
        let working = inner.stopping.run_until_cancelled(Box::pin(watch.work(&heard)));
        let Some(worked) = working.await else { return };
        let ours = worked.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look after the health of clusters");
            false
        });
        let next = watch.cared.values().map(|cared| cared.at).min();
        let moment = async {
            match next {
                Some(at) if ours => inner.clock.sleep_until(at).await,
                // Whoever has the duty may die, and nobody tells what it knew.
                _ if !ours => tokio::time::sleep(inner.config.safety_period.into()).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ears.listen() => {}
            () = moment => {}
            () = inner.stopping.cancelled() => return,
        }
        let more = ears.heard();
        heard = if ours { more } else { Heard { all: true, ..more } };
    }
}

/// Whether a policy looks after the health of a cluster.
pub(crate) async fn is_cared_for(inner: &Inner, id: ClusterId) -> Result<bool, StoreError> {
    Ok(!inner.store.health_bindings(None, Some(&[id])).await?.is_empty())
}

/// A cluster with a health policy.
struct Cared {
    settings: Settings,
    /// When it is looked at next.
    at: Timestamp,
    /// Something stood in the way: it is looked at as soon as the cluster has changed.
    open: bool,
    /// Nodes whose recovery was asked for; not again before the next look that is due by itself.
    asked: HashMap<NodeId, Timestamp>,
}

struct Watch<'e> {
    inner: &'e Inner,
    provider: Arc<dyn Provider>,
    duty: String,
    cared: HashMap<ClusterId, Cared>,
}

impl Watch<'_> {
    /// Takes in what was heard, and looks at every cluster whose moment has come; false if another engine does.
    async fn work(&mut self, heard: &Heard) -> Result<bool, StoreError> {
        self.note(heard).await?;
        let now = self.inner.clock.now();
        let due: Vec<ClusterId> =
            self.cared.iter().filter(|(_, cared)| cared.at <= now).map(|(id, _)| *id).collect();
        if due.is_empty() {
            return Ok(true);
        }
        let take = TakeDuty { name: self.duty.clone(), engine: self.inner.life().id };
        let ours = self.inner.store.take_duty(take).await?;
        self.inner.metrics.duty(&self.duty, ours);
        if !ours {
            return Ok(false);
        }
        for id in due {
            let Some(cared) = self.cared.get_mut(&id) else { continue };
            cared.open = look::at(self.inner, self.provider.as_ref(), id, cared).await?;
            cared.at = self.inner.clock.now().after(cared.settings.interval());
        }
        Ok(true)
    }

    /// Reads which policies there are now, of the clusters that have changed.
    async fn note(&mut self, Heard { all, clusters }: &Heard) -> Result<(), StoreError> {
        let ids: Vec<ClusterId> = clusters.iter().copied().collect();
        if !*all && ids.is_empty() {
            return Ok(());
        }
        let among = (!*all).then_some(ids.as_slice());
        let bindings = self.inner.store.health_bindings(Some(self.provider.instance()), among).await?;
        let now = self.inner.clock.now();
        let mut known = HashMap::new();
        self.cared.retain(|id, _| among.is_some_and(|ids| !ids.contains(id)) || bindings.contains_key(id));
        for (id, binding) in bindings {
            let Ok(settings) = binding.policy.settings::<Settings>() else { continue };
            let before = self.cared.remove(&id).filter(|cared| cared.settings == settings);
            let open = before.as_ref().is_some_and(|cared| cared.open);
            // Those that tell by themselves are not waited for, nor is what could not be done before.
            let at = match &before {
                _ if open || settings.follows_events() => now,
                Some(cared) => cared.at,
                None => now.after(settings.interval()),
            };
            let asked = before.map(|cared| cared.asked).unwrap_or_default();
            known.insert(id, Cared { settings, at, open, asked });
        }
        self.cared.extend(known);
        Ok(())
    }
}
