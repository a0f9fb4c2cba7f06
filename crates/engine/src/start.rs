//! Starting and stopping an engine: the only file that knows all its background tasks.

use std::sync::{Arc, Weak};
use std::time::Duration;

use muster_store::commands::Deregister;
use muster_store::{Store, StoreError};

use crate::config::Config;
use crate::context::{self, Context, Engine};
use crate::metrics::Metrics;
use crate::notify::Notifier;
use crate::policy::Policies;
use crate::ports::clock::Clock;
use crate::ports::instrumented::InstrumentedProvider;
use crate::ports::provider::Provider;
use crate::ports::webhook::Webhooks;
use crate::scheduler::dispatcher::Dispatcher;
use crate::scheduler::heartbeat;
use crate::scheduler::jobs;
use crate::scheduler::tasks;
use crate::supervise::keep_running;
use crate::watchers::{apps, compute_templates, expiry, health, leftover_nodes, observer, retention};

/// The timeout for the database to record that the engine has stopped.
const DEREGISTER_LIMIT: Duration = Duration::from_secs(3);

/// The parts that an engine is started with.
pub struct EngineParts {
    /// The store that holds all rows.
    pub store: Store,
    /// The providers of the instances that the engine serves.
    pub providers: Vec<Arc<dyn Provider>>,
    /// The policy types that the engine knows.
    pub policies: Policies,
    /// Sends webhooks before nodes are removed.
    pub hooks: Arc<dyn Webhooks>,
    /// The clock for timestamps and timeouts.
    pub clock: Arc<dyn Clock>,
    /// The settings of the engine.
    pub config: Config,
    /// The metrics that the engine updates.
    pub metrics: Metrics,
}

impl Engine {
    /// Starts an engine, which claims actions from then on.
    pub async fn start(parts: EngineParts) -> Result<Self, StoreError> {
        let EngineParts { store, providers, policies, hooks, clock, config, metrics } = parts;
        let instrumented = |provider| -> Arc<dyn Provider> {
            Arc::new(InstrumentedProvider::new(provider, metrics.clone()))
        };
        let providers = providers
            .into_iter()
            .map(|provider| (provider.instance().clone(), instrumented(provider)))
            .collect();
        let parts = context::ContextParts { store, providers, policies, hooks, clock, config, metrics };
        let context = Arc::new(Context::new(parts));
        let notifier: Weak<Notifier> = Arc::downgrade(&context.notifier);
        context.store.listen(notifier);
        match heartbeat::register(&context).await {
            Ok(()) => {}
            // The heartbeat retries, and the readiness probe reports why the engine is not ready.
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "cannot register yet");
                context.liveness.heartbeat_ended(Some(error.to_string()));
            }
            Err(error) => return Err(error),
        }
        // The heartbeat renews the lease until everything else has ended, so it is not one of the tracked tasks.
        let beating = Arc::clone(&context);
        let heartbeat = move || heartbeat::run(Arc::clone(&beating));
        tokio::spawn(keep_running(context.stopped.clone(), "heartbeat", heartbeat));
        let dispatcher = Arc::new(Dispatcher::new(&context));
        keep(&context, "dispatcher", move || Arc::clone(&dispatcher).run());
        let shared = Arc::clone(&context);
        keep(&context, "tasks", move || tasks::run(Arc::clone(&shared)));
        let shared = Arc::clone(&context);
        keep(&context, "jobs", move || jobs::run(Arc::clone(&shared)));
        let shared = Arc::clone(&context);
        keep(&context, "retention", move || retention::run(Arc::clone(&shared)));
        for provider in context.providers.values() {
            watch(&context, provider, "observer", observer::run);
            watch(&context, provider, "expiry", expiry::run);
            watch(&context, provider, "apps", apps::run);
            watch(&context, provider, "health", health::run);
            watch(&context, provider, "leftover_nodes", leftover_nodes::run);
            watch(&context, provider, "compute_templates", compute_templates::run);
        }
        Ok(Self { context })
    }

    /// Stops the engine: running actions stop at their next step and are released for other engines. Returns when no
    /// task runs any more, or after [`Config::stop_limit`]. If the database does not answer, other engines take the
    /// actions over when the lease has expired.
    pub async fn stop(&self) {
        self.context.stopping.cancel();
        self.context.tasks.close();
        let limit: Duration = self.context.config.stop_limit.into();
        if tokio::time::timeout(limit, self.context.tasks.wait()).await.is_err() {
            tracing::warn!("stopping although actions still run: other engines take them over");
        }
        let lease = self.context.lease();
        let deregistered = self.context.store.deregister(Deregister { engine: lease.id });
        match tokio::time::timeout(DEREGISTER_LIMIT, deregistered).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "could not deregister"),
            Err(_) => tracing::warn!("could not deregister: the database does not answer"),
        }
        lease.lost.cancel();
        self.context.stopped.cancel();
    }
}

/// Spawns a task that runs for as long as the engine, and is restarted if it panics.
fn keep<F>(context: &Context, name: &'static str, task: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    context.tasks.spawn(keep_running(context.stopping.clone(), name, task));
}

/// Spawns a watcher of one provider.
fn watch<F>(
    context: &Arc<Context>,
    provider: &Arc<dyn Provider>,
    name: &'static str,
    watcher: fn(Arc<Context>, Arc<dyn Provider>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (shared, provider) = (Arc::clone(context), Arc::clone(provider));
    keep(context, name, move || watcher(Arc::clone(&shared), Arc::clone(&provider)));
}
