//! The engine: takes actions, runs them, and knows when it may not any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use muster_core::action::Action;
use muster_core::ids::{EngineId, InstanceId};
use muster_core::time::{Span, Timestamp};
use muster_store::commands::{Heartbeat, Register, Retire, Ticket};
use muster_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::clock::Clock;
use crate::config::Config;
use crate::hooks::Hooks;
use crate::hub::Hub;
use crate::metrics::Metrics;
use crate::policy::Policies;
use crate::provider::Provider;
use crate::told::Told;
use crate::{again, dispatcher, health, janitor, limits, observer};

/// What an engine is made of.
pub struct Parts {
    /// All rows.
    pub store: Store,
    /// Where nodes run.
    pub providers: Vec<Arc<dyn Provider>>,
    /// Which policies are known.
    pub policies: Policies,
    /// Who is told that nodes are about to go.
    pub hooks: Arc<dyn Hooks>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Settings.
    pub config: Config,
    /// What is counted.
    pub metrics: Metrics,
}

/// A running engine. Handles are cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    life: RwLock<Arc<Life>>,
    pub(crate) store: Store,
    pub(crate) providers: HashMap<InstanceId, Arc<dyn Provider>>,
    pub(crate) policies: Policies,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) hub: Arc<Hub>,
    /// The engine was asked to stop: actions are handed over.
    pub(crate) stopping: CancellationToken,
    /// Everything has ended, the heartbeat too.
    stopped: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// From one registration to the loss of its lease. A process that slept too long begins a new one.
pub(crate) struct Life {
    pub(crate) id: EngineId,
    /// The lease ran out: nothing may be written under this id any more.
    pub(crate) lost: CancellationToken,
    until: AtomicI64,
}

impl Life {
    fn new() -> Arc<Self> {
        let id = EngineId::from_uuid(Uuid::now_v7());
        Arc::new(Self { id, lost: CancellationToken::new(), until: AtomicI64::new(0) })
    }

    /// What an action that this life has claimed is written with.
    pub(crate) fn ticket(&self, action: &Action) -> Ticket {
        Ticket { action: action.id, engine: self.id, fence: action.fence }
    }

    /// Whether others may think that this engine is dead. Checked right before each write.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.lost.is_cancelled() || now >= self.until()
    }

    /// Until when others take it for alive.
    fn until(&self) -> Timestamp {
        Timestamp::from_micros(self.until.load(Ordering::Acquire))
    }

    /// How long the lease still holds if it is not renewed.
    pub(crate) fn left(&self, now: Timestamp) -> Span {
        self.until().since(now)
    }

    fn renewed(&self, until: Timestamp) {
        self.until.store(until.micros(), Ordering::Release);
    }
}

impl Inner {
    pub(crate) fn provider(&self, instance: &InstanceId) -> Option<Arc<dyn Provider>> {
        self.providers.get(instance).cloned()
    }

    pub(crate) fn instances(&self) -> Vec<InstanceId> {
        self.providers.keys().cloned().collect()
    }

    /// The present life.
    pub(crate) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.life.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers under a new id.
    async fn begin(&self) -> Result<(), StoreError> {
        let life = Life::new();
        let begun = self.clock.now();
        let command = Register {
            engine: life.id,
            host: self.config.host.clone(),
            version: self.config.version.clone(),
            instances: self.instances(),
            lease: self.config.lease,
        };
        self.store.register(command).await?;
        life.renewed(begun.after(self.config.lease));
        *self.life.write().unwrap_or_else(PoisonError::into_inner) = life;
        Ok(())
    }
}

impl Engine {
    /// Starts an engine: from here on it takes actions.
    pub async fn start(parts: Parts) -> Result<Self, StoreError> {
        let Parts { store, providers, policies, hooks, clock, config, metrics } = parts;
        let told = |provider| -> Arc<dyn Provider> { Arc::new(Told::new(provider, metrics.clone())) };
        let providers =
            providers.into_iter().map(|provider| (provider.instance().clone(), told(provider))).collect();
        let inner = Arc::new(Inner {
            life: RwLock::new(Life::new()),
            store,
            providers,
            policies,
            hooks,
            clock,
            config,
            metrics,
            hub: Arc::default(),
            stopping: CancellationToken::new(),
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let hub: Weak<Hub> = Arc::downgrade(&inner.hub);
        inner.store.listen(hub);
        inner.begin().await?;
        tokio::spawn(heartbeat(Arc::clone(&inner)));
        inner.tasks.spawn(dispatcher::run(Arc::clone(&inner)));
        for provider in inner.providers.values() {
            let (observed, seen_by) = (Arc::clone(&inner), Arc::clone(provider));
            let observe = move || observer::run(Arc::clone(&observed), Arc::clone(&seen_by));
            inner.tasks.spawn(again::keep_running(Arc::clone(&inner), "observer", observe));
            let seen = Arc::clone(provider);
            let (watched, provider) = (Arc::clone(&inner), Arc::clone(provider));
            let watch = move || limits::run(Arc::clone(&watched), Arc::clone(&provider));
            inner.tasks.spawn(again::keep_running(Arc::clone(&inner), "limits", watch));
            let (cared, provider) = (Arc::clone(&inner), Arc::clone(&seen));
            let care = move || health::run(Arc::clone(&cared), Arc::clone(&provider));
            inner.tasks.spawn(again::keep_running(Arc::clone(&inner), "health", care));
        }
        inner.tasks.spawn(janitor::run(Arc::clone(&inner)));
        Ok(Self { inner })
    }

    /// Which engine this is.
    pub fn id(&self) -> EngineId {
        self.inner.life().id
    }

    /// The rows below, for reading.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The clock.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// The provider of an instance.
    pub fn provider(&self, instance: &InstanceId) -> Option<Arc<dyn Provider>> {
        self.inner.provider(instance)
    }

    /// All instances that this engine serves.
    pub fn instances(&self) -> Vec<InstanceId> {
        self.inner.instances()
    }

    /// How long ago it last said that it lives.
    pub fn lease_age(&self) -> Span {
        let Config { lease, .. } = self.inner.config;
        let left = self.inner.life().until().micros() - self.now().micros();
        Span::from_micros(lease.micros() - left)
    }

    /// Whether it can work, or in a sentence why not. It costs nothing: every renewal of the lease is a write, and
    /// what became of the last write is known.
    pub fn readiness(&self) -> Result<(), String> {
        if self.inner.stopping.is_cancelled() {
            return Err("the server is stopping: its actions are handed over".to_owned());
        }
        if let Some(error) = self.inner.store.write_failure() {
            return Err(format!("the last write failed: {error}"));
        }
        let Config { lease, heartbeat, .. } = self.inner.config;
        let age = self.lease_age();
        // One renewal may be late without anything being wrong; two are not.
        let late = Span::from_micros(heartbeat.micros().saturating_mul(2)).min(lease);
        if self.inner.life().lost.is_cancelled() || age >= late {
            let (age, heartbeat) = (age.secs(), heartbeat.secs());
            return Err(format!(
                "the engine's lease was last renewed {age} s ago, and should be every {heartbeat} s: others may take its actions over"
            ));
        }
        self.inner.providers.values().try_for_each(|provider| provider.readiness())
    }

    /// Stops: running actions stop at their next step and are handed over. Returns when nothing runs any more.
    pub async fn stop(&self) {
        self.inner.stopping.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        // Others wait for the lease otherwise; that is all an error here means.
        let life = self.inner.life();
        if let Err(error) = self.inner.store.retire(Retire { engine: life.id }).await {
            tracing::warn!(%error, "could not say good-bye");
        }
        life.lost.cancel();
        self.inner.stopped.cancel();
    }
}

/// Says that the engine lives. If that came too late, its work is given up and it begins anew.
async fn heartbeat(inner: Arc<Inner>) {
    let period: Duration = inner.config.heartbeat.into();
    loop {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = inner.stopped.cancelled() => return,
        }
        let life = inner.life();
        // Counted from before the call: however long that takes, the database's lease ends no earlier.
        let until = inner.clock.now().after(inner.config.lease);
        let command = Heartbeat { engine: life.id, instances: inner.instances(), lease: inner.config.lease };
        match inner.store.heartbeat(command).await {
            Ok(true) => {
                life.renewed(until);
                inner.metrics.renewal("done");
            }
            Ok(false) => {
                inner.metrics.renewal("lost");
                inner.metrics.no_duties();
                tracing::error!("the lease ran out: our actions are another engine's now");
                life.lost.cancel();
                if let Err(error) = inner.begin().await {
                    tracing::warn!(%error, "cannot begin again yet");
                }
            }
            Err(error) => {
                inner.metrics.renewal("failed");
                tracing::warn!(%error, "cannot renew the lease");
            }
        }
    }
}
