//! The settings by which the engine of a test differs from the default.

use std::sync::Arc;

use muster_core::time::TimeSpan;
use muster_engine::policy::Policies;
use muster_engine::ports::clock::{Clock, SystemClock};
use muster_engine::ports::webhook::{NoWebhooks, Webhooks};
use muster_engine::{Config, Engine, EngineParts, Metrics};
use muster_store::Store;
use muster_testkit::fake::{Fake, World};
use muster_testkit::operator::{Operated, OperatorWorld};
use muster_testkit::{FreshStore, ManualClock};

use super::{Harness, Kind};

/// An engine to be started, with a fresh database or with the one of a harness.
pub(crate) struct Setup {
    config: Config,
    policies: Policies,
    clock: Arc<dyn Clock>,
    hooks: Arc<dyn Webhooks>,
    by_hand: bool,
}

/// The default engine.
pub(crate) fn setup() -> Setup {
    Setup {
        config: Config::default(),
        policies: Policies::default(),
        clock: Arc::new(SystemClock),
        hooks: Arc::new(NoWebhooks),
        by_hand: false,
    }
}

impl Setup {
    pub(crate) fn config(self, config: Config) -> Self {
        Self { config, ..self }
    }

    pub(crate) fn policies(self, policies: Policies) -> Self {
        Self { policies, ..self }
    }

    /// Uses a clock that is set by hand. The lease outlives every test, however far the clock is set, and the safety
    /// period is short, unless another configuration follows.
    pub(crate) fn clock(self, clock: &ManualClock) -> Self {
        let config = Config { safety_period: TimeSpan::from_millis(50), ..self.config };
        Self { clock: Arc::new(clock.clone()), by_hand: true, config, ..self }
    }

    /// Uses the clock of the machine, or one that is shared with other replicas.
    pub(crate) fn shared_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Sends webhooks before nodes are removed to this receiver.
    pub(crate) fn hooks(self, hooks: &Arc<impl Webhooks + 'static>) -> Self {
        Self { hooks: Arc::clone(hooks) as Arc<dyn Webhooks>, ..self }
    }

    /// Starts the engine with a fresh database and providers in memory; none if there is no such database.
    pub(crate) async fn open(self, kind: Kind) -> Option<Harness> {
        let fresh = FreshStore::open(kind).await?;
        let (provider, operators) = (Arc::new(World::default()), Arc::default());
        let engine = self.start_over(fresh.store.clone(), &provider, &operators).await;
        Some(Harness { engine, provider, fresh, operators })
    }

    /// Starts the engine with this store and the providers of a harness.
    pub(crate) async fn start(self, store: Store, harness: &Harness) -> Engine {
        self.start_over(store, &harness.provider, &harness.operators).await
    }

    async fn start_over(self, store: Store, provider: &Arc<World>, operators: &Arc<OperatorWorld>) -> Engine {
        let Self { mut config, policies, clock, hooks, by_hand } = self;
        if by_hand {
            config.lease = TimeSpan::from_secs(u32::MAX);
        }
        let parts = EngineParts {
            store,
            hooks,
            providers: vec![Arc::new(Fake::new(provider)), Arc::new(Operated::new(operators))],
            policies,
            clock,
            config,
            metrics: Metrics::default(),
        };
        Engine::start(parts).await.expect("an engine starts")
    }
}
