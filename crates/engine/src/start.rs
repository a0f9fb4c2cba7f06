//! Starting and stopping an engine: the only file that knows all its background tasks.

use std::sync::{Arc, Weak};
use std::time::Duration;

use muster_store::commands::{Deregister, Heartbeat, Register};
use muster_store::{Store, StoreError};

use crate::config::Config;
use crate::context::{self, Context, Engine};
use crate::lease::Lease;
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::policy::Policies;
use crate::ports::clock::Clock;
use crate::ports::instrumented::InstrumentedProvider;
use crate::ports::provider::Provider;
use crate::ports::webhook::Webhooks;
use crate::scheduler::dispatcher;
use crate::supervise::keep_running;
use crate::watchers::{expiry, health, observer, retention};

/// What an engine is made of.
pub struct Parts {
    /// All rows.
    pub store: Store,
    /// Where nodes run.
    pub providers: Vec<Arc<dyn Provider>>,
    /// Which policies are known.
    pub policies: Policies,
    /// How webhooks are sent before nodes are removed.
    pub hooks: Arc<dyn Webhooks>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Settings.
    pub config: Config,
    /// Its counters.
    pub metrics: Metrics,
}

impl Engine {
    /// Starts an engine: from here on it claims actions.
    pub async fn start(parts: Parts) -> Result<Self, StoreError> {
        let Parts { store, providers, policies, hooks, clock, config, metrics } = parts;
        let instrumented = |provider| -> Arc<dyn Provider> {
            Arc::new(InstrumentedProvider::new(provider, metrics.clone()))
        };
        let providers = providers
            .into_iter()
            .map(|provider| (provider.instance().clone(), instrumented(provider)))
            .collect();
        let parts = context::Parts { store, providers, policies, hooks, clock, config, metrics };
        let context = Arc::new(Context::new(parts));
        let notifier: Weak<Notifier> = Arc::downgrade(&context.notifier);
        context.store.listen(notifier);
        register(&context).await?;
        tokio::spawn(heartbeat(Arc::clone(&context)));
        context.tasks.spawn(dispatcher::run(Arc::clone(&context)));
        for provider in context.providers.values() {
            watch(&context, provider, "observer", observer::run);
            watch(&context, provider, "expiry", expiry::run);
            watch(&context, provider, "health", health::run);
        }
        context.tasks.spawn(retention::run(Arc::clone(&context)));
        Ok(Self { context })
    }

    /// Stops: running actions stop at their next step and are handed over. Returns when nothing runs any more.
    pub async fn stop(&self) {
        self.context.stopping.cancel();
        self.context.tasks.close();
        self.context.tasks.wait().await;
        let lease = self.context.lease();
        if let Err(error) = self.context.store.deregister(Deregister { engine: lease.id }).await {
            // Other engines wait until the lease expires; nothing else is lost.
            tracing::warn!(%error, "could not deregister");
        }
        lease.lost.cancel();
        self.context.stopped.cancel();
    }
}

/// Runs a watcher of one provider for as long as the engine runs, also after it panics.
fn watch<F>(
    context: &Arc<Context>,
    provider: &Arc<dyn Provider>,
    name: &'static str,
    watcher: fn(Arc<Context>, Arc<dyn Provider>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (shared, provider) = (Arc::clone(context), Arc::clone(provider));
    let task = move || watcher(Arc::clone(&shared), Arc::clone(&provider));
    context.tasks.spawn(keep_running(Arc::clone(context), name, task));
}

/// Registers under a new engine id.
async fn register(context: &Context) -> Result<(), StoreError> {
    let lease = Lease::new();
    // Counted from before the call: however long that takes, the database's lease ends no earlier.
    let expires_at = context.clock.now().after(context.config.lease);
    let command = Register {
        engine: lease.id,
        host: context.config.host.clone(),
        version: context.config.version.clone(),
        instances: context.instances(),
        lease: context.config.lease,
    };
    context.store.register(command).await?;
    lease.renew(expires_at);
    context.replace_lease(lease);
    Ok(())
}

/// Renews the lease. If that comes too late, the engine gives its work up and registers again.
async fn heartbeat(context: Arc<Context>) {
    let period: Duration = context.config.heartbeat.into();
    loop {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = context.stopped.cancelled() => return,
        }
        let lease = context.lease();
        // Counted from before the call: however long that takes, the database's lease ends no earlier.
        let expires_at = context.clock.now().after(context.config.lease);
        let command =
            Heartbeat { engine: lease.id, instances: context.instances(), lease: context.config.lease };
        match context.store.heartbeat(command).await {
            Ok(true) => {
                lease.renew(expires_at);
                context.metrics.renewal("done");
            }
            Ok(false) => {
                context.metrics.renewal("lost");
                context.metrics.clear_duties();
                tracing::error!("the lease expired: other engines may have taken our actions over");
                lease.lost.cancel();
                if let Err(error) = register(&context).await {
                    tracing::warn!(%error, "cannot register again yet");
                }
            }
            Err(error) => {
                context.metrics.renewal("failed");
                tracing::warn!(%error, "cannot renew the lease");
            }
        }
    }
}
