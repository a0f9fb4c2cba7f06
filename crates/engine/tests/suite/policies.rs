//! Policies run before and after an action.

mod acting;
mod attach;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::Cluster;
use muster_core::ids::{BindingId, NodeId, PolicyId};
use muster_core::policy::{Binding, Policy};
use muster_engine::policy::{Policies, PolicyContext, PolicyType};
use muster_store::commands::CreatePolicy;
use muster_testkit::database_test;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::harness::{Harness, Kind, exactly, now, setup};

/// A world whose engine knows all types of policies.
pub(crate) async fn with_policies(kind: Kind) -> Option<Harness> {
    setup().policies(Policies::standard()).open(kind).await
}

/// A policy that is stored, and attached to nothing.
pub(crate) async fn policy(harness: &Harness, kind: &str, properties: Value) -> Policy {
    let (name, version) = kind.rsplit_once('-').expect("a type and its version");
    let spec = json!({"type": name, "version": version, "properties": properties});
    let id = Uuid::new_v4();
    let policy = Policy {
        id: PolicyId::from_uuid(id),
        name: format!("p-{id}"),
        kind: kind.to_owned(),
        project: "demo".to_owned(),
        user: "ann".to_owned(),
        spec: spec.as_object().expect("a map").clone(),
        data: Map::new(),
        created_at: now(),
        updated_at: None,
    };
    let command = CreatePolicy { policy: policy.clone(), events: Vec::new() };
    harness.store().create_policy(command).await.expect("a new policy");
    policy
}

pub(crate) async fn ended(harness: &Harness, kind: ActionKind, cluster: &Cluster, inputs: Value) -> Action {
    let action = harness.submit(kind, cluster, inputs).await;
    harness.ended(action).await
}

pub(crate) async fn attach(harness: &Harness, cluster: &Cluster, policy: &Policy) -> Action {
    ended(harness, ActionKind::ClusterAttachPolicy, cluster, json!({"policy_id": policy.id})).await
}

/// Chooses the victims, or refuses, and records its calls.
#[derive(Clone, Default)]
struct Chooser {
    victims: Arc<Mutex<Vec<NodeId>>>,
    refuse: Arc<Mutex<bool>>,
    results: Arc<Mutex<Vec<(ActionKind, bool)>>>,
    detached: Arc<Mutex<Vec<BindingId>>>,
}

#[async_trait]
impl PolicyType for Chooser {
    fn kind(&self) -> &'static str {
        "test.chooser-1.0"
    }

    fn checks(&self, kind: ActionKind) -> bool {
        kind == ActionKind::ClusterResize
    }

    async fn detach(&self, binding: &Binding, _: &mut PolicyContext<'_>) -> Result<(), String> {
        if *self.refuse.lock().expect("not poisoned") {
            return Err("not today".to_owned());
        }
        self.detached.lock().expect("not poisoned").push(binding.id);
        Ok(())
    }

    async fn before(&self, _: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        if *self.refuse.lock().expect("not poisoned") {
            return Err("not today".to_owned());
        }
        let victims = self.victims.lock().expect("not poisoned").clone();
        context.data.deletion().candidates = Some(victims);
        Ok(())
    }

    async fn after(
        &self,
        _: &Binding,
        context: &mut PolicyContext<'_>,
        succeeded: bool,
    ) -> Result<(), String> {
        self.results.lock().expect("not poisoned").push((context.action.kind, succeeded));
        Ok(())
    }
}

fn binding(cluster: muster_core::ids::ClusterId) -> Binding {
    let policy = Policy {
        id: PolicyId::from_uuid(Uuid::now_v7()),
        name: "choosy".to_owned(),
        kind: "test.chooser-1.0".to_owned(),
        project: "demo".to_owned(),
        user: "ann".to_owned(),
        spec: Map::new(),
        data: Map::new(),
        created_at: now(),
        updated_at: None,
    };
    Binding {
        id: BindingId::from_uuid(Uuid::now_v7()),
        cluster_id: cluster,
        policy,
        enabled: true,
        priority: 400,
        data: Map::new(),
        last_op: None,
    }
}

#[database_test]
async fn a_policy_chooses_victims_and_gets_the_result(kind: Kind) {
    let chooser = Chooser::default();
    let Some(harness) = setup().policies(Policies::default().with(chooser.clone())).open(kind).await else {
        return;
    };
    let (cluster, _) = harness.created(4).await;
    harness.store().bind(binding(cluster.id)).await.unwrap();
    let victim = harness.nodes(cluster.id).await[1].id;
    *chooser.victims.lock().expect("not poisoned") = vec![victim];
    let action = harness.resized(&cluster, 3).await;
    assert_eq!(action.status, ActionStatus::Succeeded);
    assert_eq!(action.data["deletion"]["candidates"], json!([victim]), "what it chose is kept");
    assert!(harness.nodes(cluster.id).await.iter().all(|node| node.id != victim));
    assert_eq!(*chooser.results.lock().expect("not poisoned"), [(ActionKind::ClusterResize, true)]);
}

#[database_test]
async fn a_policy_that_refuses_is_named_and_nothing_is_done(kind: Kind) {
    let chooser = Chooser::default();
    let Some(harness) = setup().policies(Policies::default().with(chooser.clone())).open(kind).await else {
        return;
    };
    let (cluster, _) = harness.created(2).await;
    harness.store().bind(binding(cluster.id)).await.unwrap();
    *chooser.refuse.lock().expect("not poisoned") = true;
    let action = harness.submit(ActionKind::ClusterResize, &cluster, exactly(5)).await;
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert_eq!(action.status_reason, "Policy check failure: Failed policy 'choosy': not today");
    assert_eq!(harness.cluster(cluster.id).await.desired(), 2);
    assert_eq!(
        *chooser.results.lock().expect("not poisoned"),
        [(ActionKind::ClusterResize, false)],
        "it runs after failures too"
    );
}

#[database_test]
async fn a_cluster_is_deleted_once_its_policies_are_detached(kind: Kind) {
    let chooser = Chooser::default();
    let Some(harness) = setup().policies(Policies::default().with(chooser.clone())).open(kind).await else {
        return;
    };
    let (cluster, _) = harness.created(2).await;
    let bound = binding(cluster.id);
    harness.store().bind(bound.clone()).await.unwrap();
    *chooser.refuse.lock().expect("not poisoned") = true;
    let refused = ended(&harness, ActionKind::ClusterDelete, &cluster, json!({})).await;
    let why = format!("Unable to detach policy {} before deletion.", bound.id);
    assert_eq!((refused.status, refused.status_reason), (ActionStatus::Failed, why));
    assert_eq!(harness.nodes(cluster.id).await.len(), 2, "nothing was deleted");
    *chooser.refuse.lock().expect("not poisoned") = false;
    let deleted = ended(&harness, ActionKind::ClusterDelete, &cluster, json!({})).await;
    assert_eq!(deleted.status, ActionStatus::Succeeded, "{}", deleted.status_reason);
    assert_eq!(*chooser.detached.lock().expect("not poisoned"), [bound.id]);
}
