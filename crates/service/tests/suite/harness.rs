//! The use cases over a fresh SQLite file and a world in memory.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::action::{Action, Milestone};
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, InstanceId, ProfileId};
use muster_core::node::Node;
use muster_core::principal::{Door, Principal, Role};
use muster_core::profile::{Profile, ProfileType};
use muster_core::sample;
use muster_core::time::TimeSpan;
use muster_engine::policy::Policies;
use muster_engine::ports::clock::SystemClock;
use muster_engine::ports::images::ImageBuilder;
use muster_engine::ports::provider::{
    Capabilities, ClusterTarget, Observed, Provider, ProviderError, WorldChange,
};
use muster_engine::ports::webhook::NoWebhooks;
use muster_engine::{Config, Engine, EngineParts, Metrics};
use muster_service::{
    Access, AccessTarget, Caller, Case, MilestoneWait, Recipe, Service, ServiceError, Verb,
};
use muster_testkit::fake::{FAKE_CLUSTER, FAKE_NODE, Fake, World};
use muster_testkit::{DatabaseKind, FreshStore};
use uuid::Uuid;

/// Longer than any wait in these tests, so that only a hang reaches it.
const PATIENCE: TimeSpan = TimeSpan::from_secs(30);

pub(crate) const REACHED: MilestoneWait = MilestoneWait { milestone: Milestone::Reached, at_most: PATIENCE };

pub(crate) struct Harness {
    pub(crate) service: Service,
    pub(crate) world: Arc<World>,
    database: FreshStore,
}

impl Harness {
    pub(crate) async fn open() -> Self {
        Self::with(Config::default(), |world| Arc::new(Fake::new(world))).await
    }

    pub(crate) async fn with(
        config: Config,
        provider: impl FnOnce(&Arc<World>) -> Arc<dyn Provider>,
    ) -> Self {
        let database = FreshStore::open(DatabaseKind::Sqlite).await.expect("a file can always be opened");
        let world = Arc::new(World::default());
        let service = start(&database, config, vec![provider(&world)]).await;
        Self { service, world, database }
    }

    /// Restarts the server without a provider, so that it has clusters that it does not serve.
    pub(crate) async fn restart_without_provider(&mut self) {
        self.service.engine().stop().await;
        self.service = start(&self.database, Config::default(), Vec::new()).await;
    }

    /// A cluster without workers, created and active.
    pub(crate) async fn cluster(&self, name: &str) -> Cluster {
        self.cluster_of(name, 0).await
    }

    /// A cluster with so many workers, created and active.
    pub(crate) async fn cluster_of(&self, name: &str, workers: u32) -> Cluster {
        let (cluster, action) = self.create(name, workers).await.expect("a new cluster");
        self.service.wait_for_end(action, PATIENCE).await.expect("created");
        cluster
    }

    /// Another cluster with the name of an existing one, as discovered clusters may have.
    pub(crate) async fn twin(&self, name: &str) -> Cluster {
        let object_name = format!("{name}-2");
        let (cluster, action) = self.create_object(name, &object_name, 0).await.expect("a new cluster");
        self.service.wait_for_end(action, PATIENCE).await.expect("created");
        cluster
    }

    /// Creates a cluster with so many workers; returns it with its action.
    pub(crate) async fn create(&self, name: &str, workers: u32) -> Result<(Cluster, Action), ServiceError> {
        self.create_object(name, name, workers).await
    }

    async fn create_object(
        &self,
        name: &str,
        object_name: &str,
        workers: u32,
    ) -> Result<(Cluster, Action), ServiceError> {
        let cluster = Cluster {
            id: ClusterId::from_uuid(Uuid::now_v7()),
            name: name.to_owned(),
            object_name: object_name.to_owned(),
            instance: Fake::instance_id(),
            profile_id: ProfileId::from_uuid(Uuid::now_v7()),
            profile_type: FAKE_NODE.parse().expect("a profile type"),
            ..sample::cluster(workers, 0, None)
        };
        let profile =
            Profile { id: cluster.profile_id, kind: cluster.profile_type.clone(), ..sample::profile() };
        let recipe = Recipe::New(profile);
        let unique_name = name == object_name;
        let caller = caller(Door::Core);
        let action = self.service.create_cluster(&caller, cluster.clone(), recipe, unique_name).await?;
        Ok((cluster, action))
    }
}

async fn start(database: &FreshStore, config: Config, providers: Vec<Arc<dyn Provider>>) -> Service {
    let parts = EngineParts {
        store: database.store.clone(),
        hooks: Arc::new(NoWebhooks),
        providers,
        policies: Policies::default(),
        clock: Arc::new(SystemClock),
        config,
        metrics: Metrics::default(),
    };
    Service::new(Engine::start(parts).await.expect("an engine starts"))
}

/// A fake that serves Ray clusters, too.
pub(crate) struct Rays(Arc<Fake>);

impl Rays {
    pub(crate) fn over(world: &Arc<World>) -> Arc<dyn Provider> {
        Arc::new(Self(Arc::new(Fake::new(world))))
    }
}

#[async_trait]
impl Provider for Rays {
    fn instance(&self) -> &InstanceId {
        self.0.instance()
    }

    fn capabilities(&self, kind: &ProfileType, flavor: Option<&str>) -> Option<Capabilities> {
        let fake = FAKE_CLUSTER.parse().expect("a profile type");
        self.0.capabilities(if kind.to_string() == "ray.cluster-1.0" { &fake } else { kind }, flavor)
    }

    fn image_builder(self: Arc<Self>) -> Option<Arc<dyn ImageBuilder>> {
        Arc::clone(&self.0).image_builder()
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        self.0.check_profile(profile)
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.0.observe(target, nodes).await
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        self.0.changes()
    }
}

pub(crate) fn caller(door: Door) -> Caller {
    Caller { principal: sample::principal(), door, reason: String::new(), request: None }
}

/// A caller of an operation that changes a cluster.
pub(crate) fn changing(project: &str, role: Role) -> Access {
    let principal = Principal { project: project.to_owned(), roles: [role].into(), ..sample::principal() };
    Access::open(&Case::new("ChangeCluster", Verb::Change, AccessTarget::Cluster), principal).expect("opened")
}
