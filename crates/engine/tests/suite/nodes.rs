//! Single nodes: members, and those that are in no cluster.

use muster_core::action::{Action, ActionKind, ActionStatus, OnConflict};
use muster_core::change::{Change, Delete};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::node::{Node, NodeStatus};
use muster_core::profile::Profile;
use muster_engine::ports::provider::ProviderError;
use muster_engine::{NewNode, NodeChangeRequest, SubmitError};
use muster_testkit::fake::{FAKE_CLUSTER, FAKE_NODE, Fake, Verb};
use muster_testkit::{database_test, eventually, read_change};
use serde_json::{Map, Value, json};

use crate::harness::{self, Harness, Kind, caller, cluster, setup};

/// A recipe of plain nodes that is stored.
async fn profile(harness: &Harness, kind: &str) -> Profile {
    // The harness stores recipes only together with clusters, so another cluster is created for this one.
    let donor = cluster(kind, 0);
    let created = harness.create(&donor).await;
    harness.ended(created).await;
    harness.store().profile(donor.profile_id).await.expect("the store answers").expect("it is stored")
}

pub(crate) async fn asked(harness: &Harness, cluster: Option<&Cluster>) -> (Action, Node) {
    let profile = Box::pin(profile(harness, FAKE_NODE)).await;
    let new = NewNode {
        name: "mine".to_owned(),
        profile,
        cluster: cluster.cloned(),
        instance: Fake::instance_id(),
        role: "r".to_owned(),
        metadata: Map::new(),
    };
    let (accepted, node) = Box::pin(harness.engine.create_node(new, caller())).await.expect("accepted");
    (accepted.action, node)
}

/// A node in no cluster, working.
pub(crate) async fn orphan(harness: &Harness) -> Node {
    let (action, node) = asked(harness, None).await;
    let ended = harness.ended(action.id).await;
    assert_eq!(ended.status, ActionStatus::Succeeded, "{}", ended.status_reason);
    row(harness, &node).await
}

pub(crate) async fn row(harness: &Harness, node: &Node) -> Node {
    harness.store().node(node.id).await.expect("the store answers").expect("its row is there")
}

pub(crate) async fn changed(harness: &Harness, kind: ActionKind, node: &Node, inputs: Value) -> Action {
    let node = row(harness, node).await;
    let change = NodeChangeRequest {
        change: read_change(kind, &inputs),
        node,
        on_conflict: OnConflict::Reject,
        timeout: None,
    };
    let accepted = harness.engine.submit_node(change, caller()).await.expect("accepted");
    harness.ended(accepted.action.id).await
}

#[database_test]
async fn a_node_lives_without_a_cluster(harness: Harness) {
    let (action, stored) = asked(&harness, None).await;
    assert_eq!((stored.status, &*stored.name, stored.index), (NodeStatus::Init, "mine", -1));
    let created = harness.ended(action.id).await;
    assert_eq!(created.status_reason, "Node created successfully.");
    assert_eq!((created.cluster_id, harness.children(created.id).await.len()), (None, 0));
    let node = row(&harness, &stored).await;
    assert_eq!((node.status, &*node.status_reason), (NodeStatus::Active, "Creation succeeded"));
    assert_eq!(node.physical_id, harness.provider.physical_id(node.id));
    let gone = changed(&harness, ActionKind::NodeDelete, &node, json!({})).await;
    assert_eq!(gone.status_reason, "Node deleted successfully.");
    assert_eq!(harness.store().node(node.id).await.unwrap(), None);
    assert_eq!(harness.provider.running(), []);
}

#[database_test]
async fn an_engine_that_continues_an_action_creates_its_orphan_once(mut harness: Harness) {
    let profile = profile(&harness, FAKE_NODE).await;
    harness.provider.hold(Verb::Start);
    let new = NewNode {
        name: "mine".to_owned(),
        profile,
        cluster: None,
        instance: Fake::instance_id(),
        role: String::new(),
        metadata: Map::new(),
    };
    let (accepted, node) = harness.engine.create_node(new, caller()).await.unwrap();
    harness.provider.begun(Verb::Start, 1).await;
    harness.engine.stop().await;
    harness.provider.release();
    harness.engine = setup().start(harness.store().clone(), &harness).await;
    assert_eq!(harness.ended(accepted.action.id).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.provider.running(), [node.id]);
}

#[database_test]
async fn an_orphan_that_dies_is_observed_and_not_restarted(harness: Harness) {
    let node = orphan(&harness).await;
    harness.provider.kill(node.id, "killed by signal 9");
    eventually("a row that says that the node died", harness::PATIENCE, async || {
        let status = row(&harness, &node).await.status;
        if status == NodeStatus::Error { Ok(()) } else { Err(status) }
    })
    .await;
    assert_eq!(row(&harness, &node).await.status_reason, "killed by signal 9");
    let recovered = changed(&harness, ActionKind::NodeRecover, &node, json!({})).await;
    assert_eq!(recovered.status, ActionStatus::Succeeded, "{}", recovered.status_reason);
    assert_eq!(harness.provider.running(), [node.id]);
    assert_eq!(row(&harness, &node).await.status, NodeStatus::Active);
}

#[database_test]
async fn an_orphan_whose_profile_is_gone_can_be_deleted(harness: Harness) {
    let node = orphan(&harness).await;
    harness.fresh.execute(&format!("DELETE FROM profiles WHERE id = '{}'", node.profile_id)).await;
    let deleted = changed(&harness, ActionKind::NodeDelete, &node, json!({})).await;
    assert_eq!(deleted.status, ActionStatus::Succeeded, "{}", deleted.status_reason);
    assert!(harness.provider.running().is_empty(), "it is stopped");
}

#[database_test]
async fn a_node_that_is_made_in_a_cluster_gets_its_place_and_name_there(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    let (action, stored) = asked(&harness, Some(&cluster)).await;
    assert_eq!((stored.cluster_id, stored.status), (Some(cluster.id), NodeStatus::Init));
    assert!(stored.name.starts_with("node-"), "{} is no default name", stored.name);
    let action = harness.ended(action.id).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let node = row(&harness, &stored).await;
    assert_eq!((node.index, &node.name, &*node.user_role), (2, &stored.name, "r"));
    let after = harness.cluster(cluster.id).await;
    assert_eq!((after.desired(), after.status), (2, ClusterStatus::Active));
    assert_eq!(
        after.status_reason,
        "NODE_CREATE: number of active nodes is equal or above desired_capacity (2)."
    );
    harness.assert_agreement(cluster.id).await;
    let gone = changed(&harness, ActionKind::NodeDelete, &node, json!({})).await;
    assert_eq!(gone.status, ActionStatus::Succeeded, "{}", gone.status_reason);
    assert_eq!(gone.data["deletion"]["candidates"], json!([node.id]));
    assert_eq!(harness.cluster(cluster.id).await.desired(), 1);
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn a_node_beyond_the_bounds_becomes_an_orphan(harness: Harness) {
    let mut full = cluster(FAKE_NODE, 1);
    (full.groups[0].min, full.groups[0].max) = (1, Some(1));
    let created = harness.create(&full).await;
    harness.ended(created).await;
    let (action, node) = asked(&harness, Some(&full)).await;
    let action = harness.ended(action.id).await;
    let words = "The target capacity (2) is greater than the cluster's max_size (1).";
    assert_eq!((action.status, &*action.status_reason), (ActionStatus::Failed, words));
    let node = row(&harness, &node).await;
    assert_eq!((node.cluster_id, node.status), (None, NodeStatus::Error));
    assert_eq!(harness.cluster(full.id).await.desired(), 1);
    let member = harness.nodes(full.id).await.remove(0);
    let refused = changed(&harness, ActionKind::NodeDelete, &member, json!({})).await;
    let words = "The target capacity (0) is less than the cluster's min_size (1).";
    assert_eq!(refused.status_reason, words);
    harness.assert_agreement(full.id).await;
}

#[database_test]
async fn a_node_is_checked_and_recovered_as_it_was_asked(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    let node = harness.nodes(cluster.id).await.remove(0);
    let first = node.physical_id.clone();
    let checked = changed(&harness, ActionKind::NodeCheck, &node, json!({})).await;
    assert_eq!(checked.status, ActionStatus::Succeeded, "{}", checked.status_reason);
    assert_eq!(row(&harness, &node).await.status_reason, "Check: Node is ACTIVE.");
    changed(&harness, ActionKind::NodeRecover, &node, json!({"check": true})).await;
    assert_eq!(row(&harness, &node).await.status_reason, "Recover: Node is ACTIVE.");
    assert_eq!(row(&harness, &node).await.physical_id, first, "a working node was recreated");
    changed(&harness, ActionKind::NodeRecover, &node, json!({"operation": "reboot"})).await;
    assert_eq!(harness.provider.count(Verb::Operate), 1);
    assert_eq!(row(&harness, &node).await.physical_id, first);
    let again = changed(&harness, ActionKind::NodeRecover, &node, json!({"operation": "RECREATE"})).await;
    assert_eq!(again.status, ActionStatus::Succeeded, "{}", again.status_reason);
    let made = row(&harness, &node).await;
    assert_ne!(made.physical_id, first);
    assert_eq!((made.data["recovery"].clone(), made.status), (json!("RECREATE"), NodeStatus::Active));
    let refused = changed(&harness, ActionKind::NodeRecover, &node, json!({"operation": "REBUILD"})).await;
    assert_eq!(
        refused.status_reason,
        "nodes of type fake.node-1.0 cannot be recovered by REBUILD: use REBOOT, RECREATE"
    );
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn a_node_that_is_found_dead_by_a_check_leaves_its_cluster_with_less(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    let node = harness.nodes(cluster.id).await.remove(0);
    harness.provider.hold(Verb::Observe);
    harness.provider.kill(node.id, "killed");
    harness.provider.release();
    let checked = changed(&harness, ActionKind::NodeCheck, &node, json!({})).await;
    assert_eq!(checked.status, ActionStatus::Succeeded, "{}", checked.status_reason);
    let seen = row(&harness, &node).await;
    assert_eq!((seen.status, &*seen.status_reason), (NodeStatus::Error, "Check: Node is not ACTIVE."));
    assert_eq!(harness.cluster(cluster.id).await.status, ClusterStatus::Warning);
}

#[database_test]
async fn properties_and_profile_of_a_node_can_be_changed(harness: Harness) {
    let node = orphan(&harness).await;
    let inputs = json!({"name": "other", "role": "boss", "metadata": {"a": 1}, "tainted": true});
    let updated = changed(&harness, ActionKind::NodeUpdate, &node, inputs).await;
    assert_eq!(updated.status, ActionStatus::Succeeded, "{}", updated.status_reason);
    let after = row(&harness, &node).await;
    assert_eq!((&*after.name, &*after.user_role, after.tainted), ("other", "boss", true));
    assert_eq!((after.metadata["a"].clone(), &*after.status_reason), (json!(1), "Update succeeded"));
    assert_eq!(after.physical_id, node.physical_id, "words alone restart nothing");
    let recipe = profile(&harness, FAKE_NODE).await;
    changed(&harness, ActionKind::NodeUpdate, &node, json!({"profile_id": recipe.id})).await;
    let after = row(&harness, &node).await;
    assert_eq!((after.profile_id, after.status), (recipe.id, NodeStatus::Active));
    assert_ne!(after.physical_id, node.physical_id, "its type has to recreate it for that");
    let strange = profile(&harness, FAKE_CLUSTER).await;
    let refused = changed(&harness, ActionKind::NodeUpdate, &node, json!({"profile_id": strange.id})).await;
    assert_eq!(refused.status_reason, "Cannot update a node to a different profile type, operation aborted.");
}

#[database_test]
async fn another_profile_is_refused_for_nodes_that_follow_their_clusters(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    let other = profile(&harness, FAKE_CLUSTER).await;
    for node in harness.nodes(cluster.id).await {
        let update = |inputs| NodeChangeRequest {
            change: read_change(ActionKind::NodeUpdate, &inputs),
            node: node.clone(),
            on_conflict: OnConflict::Reject,
            timeout: None,
        };
        let refused = harness.engine.submit_node(update(json!({"profile_id": other.id})), caller()).await;
        let refused = refused.expect_err("refused");
        assert!(matches!(refused, SubmitError::NotSupported(_)), "{refused:?}");
        let words = "nodes of type fake.cluster-1.0 cannot have their own profile: update the profile of \
                     their cluster instead";
        assert_eq!(refused.to_string(), words);
        let same = json!({"profile_id": node.profile_id, "name": "other"});
        let updated = changed(&harness, ActionKind::NodeUpdate, &node, same).await;
        assert_eq!(updated.status, ActionStatus::Succeeded, "{}", updated.status_reason);
    }
}

#[database_test]
async fn operations_run_on_one_node_or_on_those_that_are_named(harness: Harness) {
    let (cluster, _) = harness.created(3).await;
    let nodes = harness.nodes(cluster.id).await;
    let one = changed(&harness, ActionKind::NodeOperation, &nodes[0], json!({"operation": "reboot"})).await;
    assert_eq!(one.status_reason, "Node operation 'reboot' succeeded.");
    assert_eq!(row(&harness, &nodes[0]).await.status_reason, "Operation 'reboot' succeeded");
    harness.provider.fail_next(Verb::Operate, ProviderError::permanent("No", "it will not"));
    let inputs = json!({"operation": "reboot", "nodes": [nodes[1].id, nodes[2].id]});
    let two = harness.submit(ActionKind::ClusterOperation, &cluster, inputs).await;
    let two = harness.ended(two).await;
    assert_eq!(two.status, ActionStatus::Failed);
    assert!(two.status_reason.ends_with(": it will not"), "{}", two.status_reason);
    assert_eq!(harness.provider.count(Verb::Operate), 3);
    let children = harness.children(two.id).await;
    assert!(children.iter().all(|child| child.kind == ActionKind::NodeOperation));
    assert_eq!(children.len(), 2);
    let after = harness.cluster(cluster.id).await;
    assert!(after.status_reason.starts_with("reboot: number of active nodes"), "{}", after.status_reason);
    assert_eq!(after.status, ClusterStatus::Warning);
}

#[database_test]
async fn deleting_a_node_cancels_what_is_done_to_it(kind: Kind) {
    let Some(harness) = Harness::open(kind).await else { return };
    let node = orphan(&harness).await;
    harness.provider.hold(Verb::Operate);
    let change = |kind, inputs, on_conflict| NodeChangeRequest {
        change: read_change(kind, &inputs),
        node: node.clone(),

        on_conflict,
        timeout: None,
    };
    let operation = change(ActionKind::NodeOperation, json!({"operation": "reboot"}), OnConflict::Queue);
    let operation = harness.engine.submit_node(operation, caller()).await.unwrap().action.id;
    harness.provider.begun(Verb::Operate, 1).await;
    let check = change(ActionKind::NodeCheck, json!({}), OnConflict::Reject);
    let refused = harness.engine.submit_node(check, caller()).await.unwrap_err();
    let gate = refused.conflict(ActionKind::NodeCheck, muster_core::action::Target::Node(node.id)).unwrap();
    assert_eq!(
        gate.to_string(),
        format!("NODE_CHECK for node '{}' cannot be completed because it is already locked.", node.id)
    );
    assert_eq!(gate.actions, [operation]);
    let delete = change(ActionKind::NodeDelete, json!({}), OnConflict::Preempt);
    let delete = harness.engine.submit_node(delete, caller()).await.unwrap().action.id;
    assert_eq!(harness.ended(operation).await.status, ActionStatus::Cancelled);
    assert_eq!(harness.ended(delete).await.status, ActionStatus::Succeeded);
    harness.provider.release();
    assert_eq!(harness.provider.running(), []);
}

#[tokio::test]
async fn nodes_that_need_a_head_are_always_in_a_cluster() {
    let harness = Harness::open(Kind::Sqlite).await.expect("a file");
    let profile = profile(&harness, FAKE_CLUSTER).await;
    let new = NewNode {
        name: "mine".to_owned(),
        profile,
        cluster: None,
        instance: Fake::instance_id(),
        role: String::new(),
        metadata: Map::new(),
    };
    let refused = harness.engine.create_node(new, caller()).await.unwrap_err();
    assert!(
        matches!(&refused, SubmitError::NotSupported(why) if why.contains("fake.cluster-1.0")),
        "{refused}"
    );
    let with_head = harness.created_with_head(1).await;
    let head = harness.nodes(with_head.id).await.remove(0);
    let delete = NodeChangeRequest {
        change: Change::DeleteNode(Delete::default()),
        node: head,

        on_conflict: OnConflict::Preempt,
        timeout: None,
    };
    let refused = harness.engine.submit_node(delete, caller()).await.unwrap_err();
    assert!(refused.to_string().contains("the head cannot be removed from its cluster"), "{refused}");
}
