//! An engine with a fresh database and a world in memory.

mod setup;

use std::sync::Arc;

use muster_core::action::{Action, ActionKind, Milestone, OnConflict};
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::ids::{ActionId, ClusterId, ProfileId};
use muster_core::node::Node;
use muster_core::principal::Door;
use muster_core::profile::Profile;
use muster_core::sample;
use muster_core::time::{TimeSpan, Timestamp};
use muster_engine::ports::clock::{Clock, SystemClock};
use muster_engine::{Caller, ChangeRequest, Engine, Recipe, SubmitError};
use muster_store::Store;
pub(crate) use muster_testkit::DatabaseKind as Kind;
use muster_testkit::fake::{FAKE_CLUSTER, FAKE_NODE, Fake, World};
use muster_testkit::operator::OperatorWorld;
use muster_testkit::{FreshStore, eventually, read_change};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) use setup::setup;

/// Longer than anything here takes; only a hang reaches it.
pub(crate) const PATIENCE: TimeSpan = TimeSpan::from_secs(30);

pub(crate) struct Harness {
    pub(crate) engine: Engine,
    /// The world of the provider with individual membership.
    pub(crate) provider: Arc<World>,
    pub(crate) fresh: FreshStore,
    /// The world of the provider with delegated membership.
    pub(crate) operators: Arc<OperatorWorld>,
}

impl Harness {
    pub(crate) async fn open(kind: Kind) -> Option<Self> {
        setup().open(kind).await
    }

    pub(crate) fn store(&self) -> &Store {
        &self.fresh.store
    }

    /// Creates a cluster of plain nodes and waits for the end of the action.
    pub(crate) async fn created(&self, workers: u32) -> (Cluster, Action) {
        let cluster = cluster(FAKE_NODE, workers);
        let action = self.create(&cluster).await;
        (cluster, self.ended(action).await)
    }

    /// Creates a cluster with a head and waits for the end of the action.
    pub(crate) async fn created_with_head(&self, workers: u32) -> Cluster {
        let cluster = cluster(FAKE_CLUSTER, workers);
        let action = self.create(&cluster).await;
        self.ended(action).await;
        cluster
    }

    pub(crate) async fn create(&self, cluster: &Cluster) -> ActionId {
        self.try_create(cluster).await.expect("a new cluster")
    }

    pub(crate) async fn try_create(&self, cluster: &Cluster) -> Result<ActionId, SubmitError> {
        let profile =
            Profile { id: cluster.profile_id, kind: cluster.profile_type.clone(), ..sample::profile() };
        let accepted =
            self.engine.create_cluster(cluster.clone(), Recipe::New(profile), true, caller()).await?;
        Ok(accepted.action.id)
    }

    pub(crate) async fn submit(&self, kind: ActionKind, cluster: &Cluster, inputs: Value) -> ActionId {
        self.submit_or(kind, cluster, inputs, OnConflict::Queue).await
    }

    pub(crate) async fn submit_or(
        &self,
        kind: ActionKind,
        cluster: &Cluster,
        inputs: Value,
        on_conflict: OnConflict,
    ) -> ActionId {
        let change = ChangeRequest {
            change: read_change(kind, &inputs),
            cluster: cluster.clone(),
            node: None,
            on_conflict,
            timeout: None,
        };
        self.engine.submit(change, caller()).await.expect("accepted").action.id
    }

    /// Submits a change that is refused, and returns the error.
    pub(crate) async fn refused(&self, kind: ActionKind, cluster: &Cluster, inputs: Value) -> SubmitError {
        let on_conflict = OnConflict::Queue;
        let change = ChangeRequest {
            change: read_change(kind, &inputs),
            cluster: cluster.clone(),
            node: None,
            on_conflict,
            timeout: None,
        };
        self.engine.submit(change, caller()).await.expect_err("refused")
    }

    pub(crate) async fn resized(&self, cluster: &Cluster, workers: u32) -> Action {
        let action = self.submit(ActionKind::ClusterResize, cluster, exactly(workers)).await;
        self.ended(action).await
    }

    /// Waits for the end of an action.
    pub(crate) async fn ended(&self, id: ActionId) -> Action {
        let action = self.engine.wait(id, Milestone::Reached, PATIENCE).await.expect("the action is there");
        assert!(action.status.is_final(), "it did not end: {action:?}");
        action
    }

    pub(crate) async fn applied(&self, id: ActionId) -> Action {
        self.engine.wait(id, Milestone::Applied, PATIENCE).await.expect("the action is there")
    }

    pub(crate) async fn cluster(&self, id: ClusterId) -> Cluster {
        self.store().cluster(id).await.expect("the store answers").expect("the cluster is there")
    }

    pub(crate) async fn action(&self, id: ActionId) -> Action {
        self.store().action(id).await.expect("the store answers").expect("the action is there")
    }

    pub(crate) async fn children(&self, parent: ActionId) -> Vec<Action> {
        let query = muster_store::reads::ActionQuery { parent: Some(parent), ..Default::default() };
        self.store().actions(&query).await.expect("the store answers").items
    }

    pub(crate) async fn nodes(&self, id: ClusterId) -> Vec<Node> {
        self.store().members(id).await.expect("the store answers")
    }

    /// Checks that rows and world agree: exactly the members run.
    pub(crate) async fn assert_agreement(&self, id: ClusterId) {
        let mut members: Vec<_> = self.nodes(id).await.iter().map(|node| node.id).collect();
        members.sort_unstable();
        assert_eq!(members, self.provider.running(), "rows and world differ");
    }
}

pub(crate) fn caller() -> Caller {
    Caller { principal: sample::principal(), door: Door::Core, reason: String::new(), request: None }
}

pub(crate) fn exactly(workers: u32) -> Value {
    json!({"adjustment_type": "EXACT_CAPACITY", "number": workers})
}

pub(crate) fn cluster(kind: &str, workers: u32) -> Cluster {
    let id = Uuid::now_v7();
    let name = format!("c-{}", id.simple());
    let sample = sample::cluster(workers, 0, None);
    let groups = vec![WorkerGroup { desired: workers, ..sample.groups[0].clone() }];
    Cluster {
        id: ClusterId::from_uuid(id),
        object_name: name.clone(),
        name,
        instance: Fake::instance_id(),
        profile_id: ProfileId::from_uuid(Uuid::now_v7()),
        profile_type: kind.parse().expect("a profile type"),
        groups,
        init_at: now(),
        ..sample
    }
}

pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

impl Harness {
    /// Returns when an action is in a state.
    pub(crate) async fn until(&self, id: ActionId, status: muster_core::action::ActionStatus) {
        eventually(&format!("an action that is {status}"), PATIENCE, async || {
            let action = self.action(id).await;
            if action.status == status { Ok(()) } else { Err(format!("{action:?}")) }
        })
        .await;
    }

    /// Returns when a cluster is in a state.
    pub(crate) async fn until_status(&self, id: ClusterId, status: muster_core::cluster::ClusterStatus) {
        eventually(&format!("a cluster that is {status}"), PATIENCE, async || {
            let cluster = self.cluster(id).await;
            if cluster.status == status { Ok(()) } else { Err(format!("{cluster:?}")) }
        })
        .await;
    }

    /// Returns when a healing of a cluster has ended.
    pub(crate) async fn until_healed(&self, id: ClusterId) {
        self.until_healed_times(id, 1).await;
    }

    /// Waits until so many healings of a cluster have ended.
    pub(crate) async fn until_healed_times(&self, id: ClusterId, times: usize) {
        eventually("the end of a healing", PATIENCE, async || {
            let query = muster_store::reads::ActionQuery { cluster: Some(id), ..Default::default() };
            let actions = self.store().actions(&query).await.expect("the store answers").items;
            let healing = |action: &Action| action.cause == muster_core::action::Cause::Healing;
            let healed = actions.iter().filter(|action| healing(action) && action.status.is_final());
            if healed.count() >= times { Ok(()) } else { Err(format!("{actions:?}")) }
        })
        .await;
    }
}
