//! Receivers act in the name of their creator.

use muster_core::action::ActionKind;
use muster_core::cluster::Cluster;
use muster_core::ids::ReceiverId;
use muster_core::principal::{Door, Principal};
use muster_core::sample;
use muster_service::changes::TriggerError;
use muster_service::receivers::NewReceiver;
use serde_json::{Map, json};
use uuid::Uuid;

use crate::harness::Harness;

async fn receiver(harness: &Harness, cluster: &Cluster, project: &str) -> ReceiverId {
    let creator = Principal { project: project.to_owned(), ..sample::principal() };
    let new = NewReceiver {
        name: "r".to_owned(),
        cluster_id: cluster.id,
        action: ActionKind::ClusterScaleOut,
        actor: Map::new(),
        params: Map::from_iter([("count".to_owned(), json!(1))]),
    };
    harness.service.create_receiver(&creator, new).await.expect("created").id
}

#[tokio::test]
async fn a_receiver_acts_with_its_own_parameters_unless_others_are_given() {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    let id = receiver(&harness, &cluster, "demo").await;
    let given = Map::from_iter([("count".to_owned(), json!(3))]);
    let action = harness.service.trigger(id, given).await.expect("triggered");
    assert_eq!((action.door, action.kind), (Door::Webhook, ActionKind::ClusterScaleOut));
    assert_eq!(action.inputs, json!({"count": 3}));
}

#[tokio::test]
async fn a_receiver_whose_creator_may_not_change_the_cluster_does_nothing() {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    let id = receiver(&harness, &cluster, "other").await;
    let refused = harness.service.trigger(id, Map::new()).await;
    assert_eq!(refused.map(|action| action.id), Err(TriggerError::NoCluster(cluster.id)));
    let unknown = harness.service.trigger(ReceiverId::from_uuid(Uuid::now_v7()), Map::new()).await;
    assert_eq!(unknown.map(|action| action.id), Err(TriggerError::NoReceiver));
}
