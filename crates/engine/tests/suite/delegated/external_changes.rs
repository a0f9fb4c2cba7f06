//! External changes, deletions and losses are observed, recorded as events, and never reverted.

use muster_core::action::{ActionKind, ActionStatus, Cause};
use muster_core::cluster::ClusterStatus;
use muster_store::reads::ActionQuery;
use muster_testkit::database_test;
use muster_testkit::operator::Verb;
use serde_json::json;

use super::{created, names, open, recorded_events, until, workers};
use crate::harness::{Harness, exactly};

#[database_test(open)]
async fn a_size_changed_elsewhere_is_mirrored_with_an_event_and_never_reverted(harness: Harness) {
    let cluster = created(&harness, 3).await;
    harness.operators.edit(cluster.id, |group| group.desired = 5);
    until(&harness, cluster.id, "five", |row, nodes| row.desired() == 5 && nodes.len() == 6).await;
    harness.operators.edit(cluster.id, |group| group.desired = 1);
    until(&harness, cluster.id, "one", |row, nodes| row.desired() == 1 && nodes.len() == 2).await;
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
    let mut words: Vec<_> = recorded_events(&harness, cluster.id, "ChangedElsewhere")
        .await
        .into_iter()
        .map(|event| event.message)
        .collect();
    words.sort_unstable();
    let expected = [
        "desired size of group 'default' changed from 3 to 5",
        "desired size of group 'default' changed from 5 to 1",
    ];
    assert_eq!(words, expected);
    assert_eq!(harness.operators.calls().len(), 1, "something was written");
    let row = harness.cluster(cluster.id).await;
    assert_eq!(row.status, ClusterStatus::Active);
    assert!(row.status_reason.ends_with("equal or above desired_capacity (1)."), "{}", row.status_reason);
}

#[database_test(open)]
async fn a_change_before_our_write_is_taken_into_account(harness: Harness) {
    let cluster = created(&harness, 3).await;
    harness.operators.hold(Verb::Update);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(5)).await;
    harness.operators.begun(Verb::Update, 1).await;
    harness.operators.edit(cluster.id, |group| group.desired = 4);
    harness.operators.release();
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.operators.group(cluster.id).unwrap().desired, 5);
    assert_eq!(recorded_events(&harness, cluster.id, "ChangedElsewhere").await.len(), 1);
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
}

#[database_test(open)]
async fn a_relative_change_counts_from_what_others_wrote_before_it(harness: Harness) {
    let cluster = created(&harness, 3).await;
    harness.operators.hold(Verb::Update);
    let grow = harness.submit(ActionKind::ClusterScaleOut, &cluster, json!({"count": 2})).await;
    harness.operators.begun(Verb::Update, 1).await;
    harness.operators.edit(cluster.id, |group| group.desired = 10);
    harness.operators.release();
    let grow = harness.ended(grow).await;
    assert_eq!(grow.status, ActionStatus::Succeeded, "{}", grow.status_reason);
    assert_eq!(harness.operators.group(cluster.id).unwrap().desired, 12);
    assert_eq!(harness.cluster(cluster.id).await.desired(), 12);
}

#[database_test(open)]
async fn a_change_after_our_write_ends_the_action_and_stays(harness: Harness) {
    let cluster = created(&harness, 3).await;
    harness.operators.stop();
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(5)).await;
    harness.applied(resize).await;
    harness.operators.edit(cluster.id, |group| group.desired = 2);
    let resize = harness.ended(resize).await;
    assert_eq!(resize.status, ActionStatus::Failed);
    let words = "changed elsewhere: group 'default' now has desired size 2, min 0, no max";
    assert_eq!(resize.status_reason, words);
    assert_eq!(harness.cluster(cluster.id).await.desired(), 2);
    harness.operators.resume();
    until(&harness, cluster.id, "two", |_, nodes| nodes.len() == 3).await;
    assert_eq!(harness.operators.count(Verb::Update), 1, "it was fought");
    assert_eq!(recorded_events(&harness, cluster.id, "ChangedElsewhere").await.len(), 1);
}

#[database_test(open)]
async fn an_update_to_the_present_recipe_is_written_only_if_the_object_differs(harness: Harness) {
    let cluster = created(&harness, 1).await;
    let update = async |cpu: &str| {
        let inputs = json!({"groups": [{"name": "default", "shape": {"cpu": cpu}}]});
        let update = harness.submit(ActionKind::ClusterUpdate, &cluster, inputs).await;
        assert_eq!(harness.ended(update).await.status, ActionStatus::Succeeded);
        let cpu = harness.cluster(cluster.id).await.groups[0].shape.cpu.map(|cpu| cpu.to_string());
        (harness.operators.count(Verb::Update), cpu)
    };
    let cpu = |cpu: &str| Some(cpu.to_owned());
    assert_eq!(update("1").await, (1, cpu("1")));
    assert_eq!(update("1").await, (1, cpu("1")), "only the recipes are compared");
    harness.operators.compare(Some(true));
    assert_eq!(update("1").await, (2, cpu("1")), "others changed the object");
    harness.operators.compare(Some(false));
    assert_eq!(update("1").await, (2, cpu("1")));
    assert_eq!(update("2").await, (2, cpu("2")), "the object had that already");
}

#[database_test(open)]
async fn a_cluster_deleted_elsewhere_becomes_history(harness: Harness) {
    let cluster = created(&harness, 2).await;
    harness.operators.remove(cluster.id);
    harness.until_status(cluster.id, ClusterStatus::Deleted).await;
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.deleted_at.is_some(), row.status_reason.as_str()), (true, "it was deleted elsewhere"));
    assert_eq!(harness.nodes(cluster.id).await, []);
    assert_eq!(recorded_events(&harness, cluster.id, "DeletedElsewhere").await.len(), 1);
    let history = ActionQuery { cluster: Some(cluster.id), ..ActionQuery::default() };
    assert_eq!(harness.store().actions(&history).await.unwrap().items.len(), 1);
}

#[database_test(open)]
async fn a_cluster_deleted_elsewhere_during_a_resize_is_not_recreated(harness: Harness) {
    let cluster = created(&harness, 2).await;
    harness.operators.stop();
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    harness.applied(resize).await;
    harness.operators.remove(cluster.id);
    let resize = harness.ended(resize).await;
    assert_eq!(
        (resize.status, resize.status_reason.as_str()),
        (ActionStatus::Failed, "the cluster was deleted elsewhere")
    );
    harness.until_status(cluster.id, ClusterStatus::Deleted).await;
    assert_eq!((harness.operators.objects(), harness.operators.count(Verb::Create)), (0, 1));
}

#[database_test(open)]
async fn a_lost_worker_is_an_event_and_left_to_its_operator(harness: Harness) {
    let cluster = created(&harness, 2).await;
    let lost = workers(harness.nodes(cluster.id).await).remove(0);
    harness.operators.lose(cluster.id, &lost.name);
    until(&harness, cluster.id, "replaced", |_, nodes| {
        nodes.len() == 3 && nodes.iter().all(|node| node.id != lost.id)
    })
    .await;
    let recorded = recorded_events(&harness, cluster.id, "NodeLost").await;
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0].object_id, lost.id.to_string());
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
    let query = ActionQuery { cluster: Some(cluster.id), ..ActionQuery::default() };
    let actions = harness.store().actions(&query).await.unwrap().items;
    assert!(actions.iter().all(|action| action.cause != Cause::Healing));
    assert_eq!(harness.operators.calls().len(), 1);
}

#[database_test(open)]
async fn a_worker_that_does_not_come_up_says_why_in_the_clusters_words(harness: Harness) {
    let cluster = created(&harness, 2).await;
    let name = harness.operators.workers(cluster.id).remove(0);
    harness.operators.with_member(cluster.id, &name, |member| {
        member.observation = muster_core::node::Observation::Starting { physical_id: None };
        member.reason = "unschedulable: 0/3 nodes have 8 cpus".to_owned();
    });
    harness.until_status(cluster.id, ClusterStatus::Warning).await;
    let words = harness.cluster(cluster.id).await.status_reason;
    assert!(words.contains(&format!("{name}: unschedulable: 0/3 nodes have 8 cpus")), "{words}");
}
