//! Single nodes: members, and those that are in no cluster.

use muster_core::action::{Action, ActionKind, ActionStatus, OnConflict};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::node::{Node, NodeStatus};
use muster_core::profile::Profile;
use muster_engine::ports::provider::ProviderError;
use muster_engine::{NewNode, NodeChange, SubmitError};
use muster_testkit::eventually;
use muster_testkit::fake::{FAKE_CLUSTER, FAKE_NODE, Fake, Verb};
use rstest::rstest;
use serde_json::{Map, Value, json};

use crate::fixture::{self, Fixture, Kind, caller, cluster};

/// A recipe of plain nodes that is stored.
async fn profile(world: &Fixture, kind: &str) -> Profile {
    // Recipes come with clusters here: this one is another cluster's.
    let donor = cluster(kind, 0);
    let created = world.create(&donor).await;
    world.ended(created).await;
    world.store().profile(donor.profile_id).await.expect("the store answers").expect("it is stored")
}

pub(crate) async fn asked(world: &Fixture, cluster: Option<&Cluster>) -> (Action, Node) {
    let profile = Box::pin(profile(world, FAKE_NODE)).await;
    let new = NewNode {
        name: "mine".to_owned(),
        profile,
        cluster: cluster.cloned(),
        instance: Fake::instance_id(),
        role: "r".to_owned(),
        metadata: Map::new(),
    };
    let (accepted, node) = Box::pin(world.engine.create_node(new, caller())).await.expect("accepted");
    (accepted.action, node)
}

/// A node in no cluster, working.
pub(crate) async fn orphan(world: &Fixture) -> Node {
    let (action, node) = asked(world, None).await;
    let ended = world.ended(action.id).await;
    assert_eq!(ended.status, ActionStatus::Succeeded, "{}", ended.status_reason);
    row(world, &node).await
}

pub(crate) async fn row(world: &Fixture, node: &Node) -> Node {
    world.store().node(node.id).await.expect("the store answers").expect("its row is there")
}

pub(crate) async fn changed(world: &Fixture, kind: ActionKind, node: &Node, inputs: Value) -> Action {
    let node = row(world, node).await;
    let change = NodeChange { kind, node, inputs, on_conflict: OnConflict::Reject, timeout: None };
    let accepted = world.engine.submit_node(change, caller()).await.expect("accepted");
    world.ended(accepted.action.id).await
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_node_lives_without_a_cluster(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (action, stored) = asked(&world, None).await;
    assert_eq!((stored.status, &*stored.name, stored.index), (NodeStatus::Init, "mine", -1));
    let created = world.ended(action.id).await;
    assert_eq!(created.status_reason, "Node created successfully.");
    assert_eq!((created.cluster_id, world.children(created.id).await.len()), (None, 0));
    let node = row(&world, &stored).await;
    assert_eq!((node.status, &*node.status_reason), (NodeStatus::Active, "Creation succeeded"));
    assert_eq!(node.physical_id, world.world.physical_id(node.id));
    let gone = changed(&world, ActionKind::NodeDelete, &node, json!({})).await;
    assert_eq!(gone.status_reason, "Node deleted successfully.");
    assert_eq!(world.store().node(node.id).await.unwrap(), None);
    assert_eq!(world.world.running(), []);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_engine_that_goes_on_makes_an_orphan_once(#[case] kind: Kind) {
    let Some(mut world) = Fixture::open(kind).await else { return };
    let profile = profile(&world, FAKE_NODE).await;
    world.world.hold(Verb::Start);
    let new = NewNode {
        name: "mine".to_owned(),
        profile,
        cluster: None,
        instance: Fake::instance_id(),
        role: String::new(),
        metadata: Map::new(),
    };
    let (accepted, node) = world.engine.create_node(new, caller()).await.unwrap();
    world.world.begun(Verb::Start, 1).await;
    world.engine.stop().await;
    world.world.release();
    world.engine = fixture::engine(world.store().clone(), &world.world).await;
    assert_eq!(world.ended(accepted.action.id).await.status, ActionStatus::Succeeded);
    assert_eq!(world.world.running(), [node.id]);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_orphan_that_dies_is_seen_and_not_brought_back_unasked(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let node = orphan(&world).await;
    world.world.kill(node.id, "killed by signal 9");
    eventually("a row that says that the node died", fixture::PATIENCE, async || {
        let status = row(&world, &node).await.status;
        if status == NodeStatus::Error { Ok(()) } else { Err(status) }
    })
    .await;
    assert_eq!(row(&world, &node).await.status_reason, "killed by signal 9");
    let recovered = changed(&world, ActionKind::NodeRecover, &node, json!({})).await;
    assert_eq!(recovered.status, ActionStatus::Succeeded, "{}", recovered.status_reason);
    assert_eq!(world.world.running(), [node.id]);
    assert_eq!(row(&world, &node).await.status, NodeStatus::Active);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_node_that_is_made_in_a_cluster_gets_its_place_and_name_there(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    let (action, stored) = asked(&world, Some(&cluster)).await;
    assert_eq!((stored.cluster_id, stored.status), (Some(cluster.id), NodeStatus::Init));
    assert!(stored.name.starts_with("node-"), "{} was given by somebody", stored.name);
    let action = world.ended(action.id).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let node = row(&world, &stored).await;
    assert_eq!((node.index, &node.name, &*node.user_role), (2, &stored.name, "r"));
    let after = world.cluster(cluster.id).await;
    assert_eq!((after.desired(), after.status), (2, ClusterStatus::Active));
    assert_eq!(
        after.status_reason,
        "NODE_CREATE: number of active nodes is equal or above desired_capacity (2)."
    );
    world.assert_agreement(cluster.id).await;
    let gone = changed(&world, ActionKind::NodeDelete, &node, json!({})).await;
    assert_eq!(gone.status, ActionStatus::Succeeded, "{}", gone.status_reason);
    assert_eq!(gone.data["deletion"]["candidates"], json!([node.id]));
    assert_eq!(world.cluster(cluster.id).await.desired(), 1);
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_node_for_which_there_is_no_room_stays_outside(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let mut full = cluster(FAKE_NODE, 1);
    (full.groups[0].min, full.groups[0].max) = (1, Some(1));
    let created = world.create(&full).await;
    world.ended(created).await;
    let (action, node) = asked(&world, Some(&full)).await;
    let action = world.ended(action.id).await;
    let words = "The target capacity (2) is greater than the cluster's max_size (1).";
    assert_eq!((action.status, &*action.status_reason), (ActionStatus::Failed, words));
    let node = row(&world, &node).await;
    assert_eq!((node.cluster_id, node.status), (None, NodeStatus::Error));
    assert_eq!(world.cluster(full.id).await.desired(), 1);
    let member = world.nodes(full.id).await.remove(0);
    let refused = changed(&world, ActionKind::NodeDelete, &member, json!({})).await;
    let words = "The target capacity (0) is less than the cluster's min_size (1).";
    assert_eq!(refused.status_reason, words);
    world.assert_agreement(full.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_node_is_checked_and_recovered_as_it_was_asked(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(2).await;
    let node = world.nodes(cluster.id).await.remove(0);
    let first = node.physical_id.clone();
    let checked = changed(&world, ActionKind::NodeCheck, &node, json!({})).await;
    assert_eq!(checked.status, ActionStatus::Succeeded, "{}", checked.status_reason);
    assert_eq!(row(&world, &node).await.status_reason, "Check: Node is ACTIVE.");
    changed(&world, ActionKind::NodeRecover, &node, json!({"check": true})).await;
    assert_eq!(row(&world, &node).await.status_reason, "Recover: Node is ACTIVE.");
    assert_eq!(row(&world, &node).await.physical_id, first, "one that works was made anew");
    changed(&world, ActionKind::NodeRecover, &node, json!({"operation": "reboot"})).await;
    assert_eq!(world.world.count(Verb::Operate), 1);
    assert_eq!(row(&world, &node).await.physical_id, first);
    let again = changed(&world, ActionKind::NodeRecover, &node, json!({"operation": "RECREATE"})).await;
    assert_eq!(again.status, ActionStatus::Succeeded, "{}", again.status_reason);
    let made = row(&world, &node).await;
    assert_ne!(made.physical_id, first);
    assert_eq!((made.data["recovery"].clone(), made.status), (json!("RECREATE"), NodeStatus::Active));
    let refused = changed(&world, ActionKind::NodeRecover, &node, json!({"operation": "REBUILD"})).await;
    assert_eq!(
        refused.status_reason,
        "nodes of type fake.node-1.0 cannot be recovered by REBUILD: use REBOOT, RECREATE"
    );
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_cannot_be_read_is_refused_and_touches_nothing(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    let node = world.nodes(cluster.id).await.remove(0);
    let message = "the inputs cannot be read: invalid type: string \"maybe\", expected a boolean";
    let (kind, inputs, on_conflict) =
        (ActionKind::NodeRecover, json!({"check": "maybe"}), OnConflict::Reject);
    let change = NodeChange { kind, node: node.clone(), inputs: inputs.clone(), on_conflict, timeout: None };
    let one = world.engine.submit_node(change, caller()).await.expect_err("refused");
    assert_eq!(one.to_string(), message);
    let all = world.refused(ActionKind::ClusterRecover, &cluster, inputs).await;
    assert_eq!(all.to_string(), message);
    let count = world.refused(ActionKind::ClusterScaleIn, &cluster, json!({"count": "x"})).await;
    assert_eq!(count.to_string(), "Invalid count (x) for scaling in.");
    assert_eq!(row(&world, &node).await.physical_id, node.physical_id, "it was recreated");
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_node_that_is_found_dead_by_a_check_leaves_its_cluster_with_less(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(2).await;
    let node = world.nodes(cluster.id).await.remove(0);
    world.world.hold(Verb::Observe);
    world.world.kill(node.id, "killed");
    world.world.release();
    let checked = changed(&world, ActionKind::NodeCheck, &node, json!({})).await;
    assert_eq!(checked.status, ActionStatus::Succeeded, "{}", checked.status_reason);
    let seen = row(&world, &node).await;
    assert_eq!((seen.status, &*seen.status_reason), (NodeStatus::Error, "Check: Node is not ACTIVE."));
    assert_eq!(world.cluster(cluster.id).await.status, ClusterStatus::Warning);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_is_said_of_a_node_can_be_changed_and_its_recipe_too(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let node = orphan(&world).await;
    let inputs = json!({"name": "other", "role": "boss", "metadata": {"a": 1}, "tainted": true});
    let updated = changed(&world, ActionKind::NodeUpdate, &node, inputs).await;
    assert_eq!(updated.status, ActionStatus::Succeeded, "{}", updated.status_reason);
    let after = row(&world, &node).await;
    assert_eq!((&*after.name, &*after.user_role, after.tainted), ("other", "boss", true));
    assert_eq!((after.metadata["a"].clone(), &*after.status_reason), (json!(1), "Update succeeded"));
    assert_eq!(after.physical_id, node.physical_id, "words alone restart nothing");
    let recipe = profile(&world, FAKE_NODE).await;
    changed(&world, ActionKind::NodeUpdate, &node, json!({"profile_id": recipe.id})).await;
    let after = row(&world, &node).await;
    assert_eq!((after.profile_id, after.status), (recipe.id, NodeStatus::Active));
    assert_ne!(after.physical_id, node.physical_id, "its type has to make it anew for that");
    let strange = profile(&world, FAKE_CLUSTER).await;
    let refused = changed(&world, ActionKind::NodeUpdate, &node, json!({"profile_id": strange.id})).await;
    assert_eq!(refused.status_reason, "Cannot update a node to a different profile type, operation aborted.");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn operations_run_on_one_node_or_on_those_that_are_named(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(3).await;
    let nodes = world.nodes(cluster.id).await;
    let one = changed(&world, ActionKind::NodeOperation, &nodes[0], json!({"operation": "reboot"})).await;
    assert_eq!(one.status_reason, "Node operation 'reboot' succeeded.");
    assert_eq!(row(&world, &nodes[0]).await.status_reason, "Operation 'reboot' succeeded");
    world.world.fail_next(Verb::Operate, ProviderError::permanent("No", "it will not"));
    let inputs = json!({"operation": "reboot", "nodes": [nodes[1].id, nodes[2].id]});
    let two = world.submit(ActionKind::ClusterOperation, &cluster, inputs).await;
    let two = world.ended(two).await;
    assert_eq!(two.status, ActionStatus::Failed);
    assert!(two.status_reason.ends_with(": it will not"), "{}", two.status_reason);
    assert_eq!(world.world.count(Verb::Operate), 3);
    let children = world.children(two.id).await;
    assert!(children.iter().all(|child| child.kind == ActionKind::NodeOperation));
    assert_eq!(children.len(), 2);
    let after = world.cluster(cluster.id).await;
    assert!(after.status_reason.starts_with("reboot: number of active nodes"), "{}", after.status_reason);
    assert_eq!(after.status, ClusterStatus::Warning);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn deleting_a_node_cancels_what_is_done_to_it(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let node = orphan(&world).await;
    world.world.hold(Verb::Operate);
    let change = |kind, inputs, on_conflict| NodeChange {
        kind,
        node: node.clone(),
        inputs,
        on_conflict,
        timeout: None,
    };
    let operation = change(ActionKind::NodeOperation, json!({"operation": "reboot"}), OnConflict::Queue);
    let operation = world.engine.submit_node(operation, caller()).await.unwrap().action.id;
    world.world.begun(Verb::Operate, 1).await;
    let check = change(ActionKind::NodeCheck, json!({}), OnConflict::Reject);
    let refused = world.engine.submit_node(check, caller()).await.unwrap_err();
    let gate = refused.conflict(ActionKind::NodeCheck, muster_core::action::Target::Node(node.id)).unwrap();
    assert_eq!(
        gate.to_string(),
        format!("NODE_CHECK for node '{}' cannot be completed because it is already locked.", node.id)
    );
    assert_eq!(gate.actions, [operation]);
    let delete = change(ActionKind::NodeDelete, json!({}), OnConflict::Preempt);
    let delete = world.engine.submit_node(delete, caller()).await.unwrap().action.id;
    assert_eq!(world.ended(operation).await.status, ActionStatus::Cancelled);
    assert_eq!(world.ended(delete).await.status, ActionStatus::Succeeded);
    world.world.release();
    assert_eq!(world.world.running(), []);
}

#[tokio::test]
async fn nodes_that_need_a_head_are_always_in_a_cluster() {
    let world = Fixture::open(Kind::Sqlite).await.expect("a file");
    let profile = profile(&world, FAKE_CLUSTER).await;
    let new = NewNode {
        name: "mine".to_owned(),
        profile,
        cluster: None,
        instance: Fake::instance_id(),
        role: String::new(),
        metadata: Map::new(),
    };
    let refused = world.engine.create_node(new, caller()).await.unwrap_err();
    assert!(
        matches!(&refused, SubmitError::NotSupported(why) if why.contains("fake.cluster-1.0")),
        "{refused}"
    );
    let with_head = world.created_with_head(1).await;
    let head = world.nodes(with_head.id).await.remove(0);
    let delete = NodeChange {
        kind: ActionKind::NodeDelete,
        node: head,
        inputs: json!({}),
        on_conflict: OnConflict::Preempt,
        timeout: None,
    };
    let refused = world.engine.submit_node(delete, caller()).await.unwrap_err();
    assert!(refused.to_string().contains("the head goes only with its cluster"), "{refused}");
}
