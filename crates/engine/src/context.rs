//! The context that all parts of an engine share: store, providers, clock, configuration, lease.

use std::collections::HashMap;
use std::sync::Arc;

use muster_core::ids::{EngineId, InstanceId};
use muster_core::time::{TimeSpan, Timestamp};
use muster_store::commands::TakeDuty;
use muster_store::{Store, StoreError};
use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::lease::Lease;
use crate::liveness::Liveness;
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::policy::Policies;
use crate::ports::clock::Clock;
use crate::ports::provider::Provider;
use crate::ports::webhook::Webhooks;

/// A running engine. Handles are cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) context: Arc<Context>,
}

/// The state that all tasks of an engine share.
pub(crate) struct Context {
    lease: RwLock<Arc<Lease>>,
    pub(crate) store: Store,
    pub(crate) providers: HashMap<InstanceId, Arc<dyn Provider>>,
    pub(crate) policies: Policies,
    pub(crate) hooks: Arc<dyn Webhooks>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) liveness: Liveness,
    /// Cancelled when the engine is asked to stop: its actions are released for other engines.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when all tasks have ended, or did not end in time: the heartbeat ends as the last one.
    pub(crate) stopped: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// The parts of a context that are passed in.
pub(crate) struct ContextParts {
    pub(crate) store: Store,
    pub(crate) providers: HashMap<InstanceId, Arc<dyn Provider>>,
    pub(crate) policies: Policies,
    pub(crate) hooks: Arc<dyn Webhooks>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
}

impl Context {
    /// Creates a context whose lease is not registered yet.
    pub(crate) fn new(parts: ContextParts) -> Self {
        let ContextParts { store, providers, policies, hooks, clock, config, metrics } = parts;
        Self {
            lease: RwLock::new(Lease::new()),
            store,
            providers,
            policies,
            hooks,
            clock,
            config,
            metrics,
            notifier: Arc::default(),
            liveness: Liveness::default(),
            stopping: CancellationToken::new(),
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    pub(crate) fn provider(&self, instance: &InstanceId) -> Option<Arc<dyn Provider>> {
        self.providers.get(instance).cloned()
    }

    pub(crate) fn instances(&self) -> Vec<InstanceId> {
        self.providers.keys().cloned().collect()
    }

    /// Returns the current lease of this engine.
    pub(crate) fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.lease.read())
    }

    /// Acquires or renews a duty; returns false if another engine holds it.
    pub(crate) async fn holds_duty(&self, duty: &str) -> Result<bool, StoreError> {
        let take = TakeDuty { name: duty.to_owned(), engine: self.lease().id };
        let ours = self.store.take_duty(take).await?;
        self.metrics.duty(duty, ours);
        Ok(ours)
    }

    pub(crate) fn replace_lease(&self, lease: Arc<Lease>) {
        *self.lease.write() = lease;
    }
}

impl Engine {
    /// Returns the id of this engine, which changes when it registers again after the loss of its lease.
    pub fn id(&self) -> EngineId {
        self.context.lease().id
    }

    /// Returns the store, from which callers only read.
    pub fn store(&self) -> &Store {
        &self.context.store
    }

    /// Returns the settings of the engine.
    pub fn config(&self) -> &Config {
        &self.context.config
    }

    /// Returns the time by the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    /// Returns the provider of an instance; none if this engine does not serve it.
    pub fn provider(&self, instance: &InstanceId) -> Option<Arc<dyn Provider>> {
        self.context.provider(instance)
    }

    /// Returns all instances that this engine serves.
    pub fn instances(&self) -> Vec<InstanceId> {
        self.context.instances()
    }

    /// Returns the time since the lease was last renewed.
    pub fn lease_age(&self) -> TimeSpan {
        let left = self.context.lease().expires_at().micros() - self.now().micros();
        TimeSpan::from_micros(self.context.config.lease.micros() - left)
    }

    /// Returns an error with the reason if the engine cannot execute actions. Makes no request: every renewal of the
    /// lease is a write, and the result of the last write is known.
    pub fn readiness(&self) -> Result<(), String> {
        if self.context.stopping.is_cancelled() {
            return Err("the server is stopping: its actions are handed over".to_owned());
        }
        if let Some(error) = self.context.store.write_failure() {
            return Err(format!("the last write failed: {error}"));
        }
        if let Some(error) = self.context.liveness.lease_error() {
            return Err(format!("the engine cannot renew its lease: {error}"));
        }
        let Config { lease, heartbeat, parallel_actions, .. } = self.context.config;
        let age = self.lease_age();
        // One late renewal is tolerated, two are not.
        let late = TimeSpan::from_micros(heartbeat.micros().saturating_mul(2)).min(lease);
        if self.context.lease().lost.is_cancelled() || age >= late {
            let (age, heartbeat) = (age.secs(), heartbeat.secs());
            return Err(format!(
                "the engine's lease was last renewed {age} s ago, not every {heartbeat} s: other engines may take over \
                 its actions"
            ));
        }
        self.context.liveness.check_dispatcher(parallel_actions)?;
        self.context.providers.values().try_for_each(|provider| provider.readiness())
    }

    /// Returns an error if the heartbeat has stopped, which only a restart of the process repairs.
    pub fn liveness(&self) -> Result<(), String> {
        self.context.liveness.check_heartbeat()
    }
}
