//! Objects of deleted clusters: an action deletes them, and the row stays history.

use muster_core::action::{Action, ActionKind, ActionStatus, Cause};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::principal::Door;
use muster_core::time::TimeSpan;
use muster_engine::ports::provider::ProviderError;
use muster_store::reads::ActionQuery;
use muster_testkit::operator::Verb;
use muster_testkit::{ManualClock, database_test, eventually};

use super::takeover::{replace_by_a_dying_one, take_over};
use super::{created, open, recorded_events, until};
use crate::harness::{Harness, PATIENCE, setup};

/// A cluster that was deleted, its row, and the action that deleted it.
async fn deleted(harness: &Harness) -> (Cluster, Action) {
    let cluster = created(harness, 1).await;
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, serde_json::json!({})).await;
    let delete = harness.ended(delete).await;
    assert_eq!(delete.status, ActionStatus::Succeeded, "{}", delete.status_reason);
    (harness.cluster(cluster.id).await, delete)
}

/// The actions that delete the leftover object of a cluster, oldest first.
async fn collections(harness: &Harness, history: &Cluster) -> Vec<Action> {
    let query = ActionQuery { cluster: Some(history.id), ..ActionQuery::default() };
    let mut actions = harness.store().actions(&query).await.expect("the store answers").items;
    actions.retain(Action::collects_garbage);
    actions.sort_by_key(|action| action.created_at);
    actions
}

/// Waits until so many collections were submitted and the last one has ended, and returns that one.
async fn collected(harness: &Harness, history: &Cluster, count: usize) -> Action {
    let submitted = eventually("a collection", PATIENCE, async || {
        let all = collections(harness, history).await;
        if all.len() == count { Ok(all) } else { Err(format!("{all:?}")) }
    });
    let last = submitted.await.pop().expect("as many as were asked for");
    harness.ended(last.id).await
}

/// Returns when the observer has processed all earlier changes.
async fn observed(harness: &Harness) {
    let other = created(harness, 1).await;
    harness.operators.edit(other.id, |group| group.desired = 2);
    until(harness, other.id, "two", |row, _| row.desired() == 2).await;
}

#[database_test(open)]
async fn an_object_that_comes_after_the_deletion_is_deleted_by_one_action(harness: Harness) {
    let (history, delete) = deleted(&harness).await;
    harness.operators.write_late(&history);
    let collection = collected(&harness, &history, 1).await;
    assert_eq!(collection.status, ActionStatus::Succeeded, "{}", collection.status_reason);
    assert_eq!(harness.operators.objects(), 0);
    assert!(collection.fence > delete.fence, "{:?} after {:?}", collection.fence, delete.fence);
    let call = harness.operators.calls().pop().expect("something was done");
    assert_eq!((call.verb, call.fence), (Verb::Delete, collection.fence));
    // The action shows users its kind, cause and reason.
    assert_eq!((collection.kind, collection.cause), (ActionKind::ClusterDelete, Cause::Healing));
    assert_eq!((collection.door, collection.reason.as_str()), (Door::Engine, "LeftoverFound"));
    assert_eq!(collection.status_reason, "The object of a deleted cluster was removed.");
    assert_eq!(collection.principal.project, history.project);
    for reason in ["LeftoverFound", "LeftoverRemoved"] {
        let events = recorded_events(&harness, history.id, reason).await;
        let actions: Vec<_> = events.iter().map(|event| event.action_id).collect();
        assert_eq!(actions, [Some(collection.id)], "{reason}");
    }
    assert_eq!(harness.cluster(history.id).await, history, "history does not change");
    assert_eq!(harness.nodes(history.id).await, []);
    // An object that is written once more is deleted once more.
    harness.operators.write_late(&history);
    assert_eq!(collected(&harness, &history, 2).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.operators.objects(), 0);
}

#[database_test(open)]
async fn while_an_action_collects_no_second_one_is_submitted(harness: Harness) {
    let (history, _) = deleted(&harness).await;
    harness.operators.finalize(true);
    harness.operators.write_late(&history);
    harness.operators.begun(Verb::Delete, 2).await;
    harness.operators.edit(history.id, |group| group.desired = 7);
    observed(&harness).await;
    let submitted = collections(&harness, &history).await;
    assert_eq!(submitted.len(), 1, "{submitted:?}");
    assert_eq!(submitted[0].status, ActionStatus::Running, "it waits until the object is gone");
    harness.operators.remove(history.id);
    assert_eq!(collected(&harness, &history, 1).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.operators.count(Verb::Delete), 2, "what is being deleted is not deleted again");
    assert_eq!(harness.cluster(history.id).await, history);
}

#[database_test(open)]
async fn a_collection_survives_its_engine(mut harness: Harness) {
    let (history, _) = deleted(&harness).await;
    replace_by_a_dying_one(&mut harness).await;
    let dying = harness.engine.id();
    harness.operators.hold(Verb::Delete);
    harness.operators.write_late(&history);
    harness.operators.begun(Verb::Delete, 2).await;
    let first = collections(&harness, &history).await.remove(0);
    assert_eq!(first.owner, Some(dying));
    take_over(&mut harness).await;
    harness.operators.begun(Verb::Delete, 3).await;
    harness.operators.release();
    let collection = collected(&harness, &history, 1).await;
    assert_eq!(collection.status, ActionStatus::Succeeded, "{}", collection.status_reason);
    assert!(collection.owner != Some(dying) && collection.fence > first.fence, "{collection:?}");
    assert_eq!(harness.operators.objects(), 0);
    assert_eq!(harness.cluster(history.id).await, history);
}

async fn open_with_clock(kind: crate::harness::Kind) -> Option<(Harness, ManualClock)> {
    let clock = ManualClock::default();
    Some((setup().clock(&clock).open(kind).await?, clock))
}

#[database_test(open_with_clock)]
async fn a_collection_that_failed_is_repeated_after_a_while(world: (Harness, ManualClock)) {
    let (harness, clock) = world;
    let (history, _) = deleted(&harness).await;
    // The creation time decides which deletion is the last one.
    clock.advance(TimeSpan::from_secs(1));
    harness.operators.fail_next(Verb::Delete, ProviderError::permanent("Forbidden", "it may not"));
    harness.operators.write_late(&history);
    let failed = collected(&harness, &history, 1).await;
    assert_eq!((failed.status, failed.status_reason.as_str()), (ActionStatus::Failed, "it may not"));
    assert_eq!(harness.cluster(history.id).await, history, "history does not change");
    observed(&harness).await;
    assert_eq!(collections(&harness, &history).await.len(), 1, "not at once");
    clock.advance(TimeSpan::from_secs(600));
    assert_eq!(collected(&harness, &history, 2).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.cluster(history.id).await, history);
}

#[database_test(open)]
async fn what_others_deleted_and_restored_is_left_alone(harness: Harness) {
    let cluster = created(&harness, 1).await;
    harness.operators.remove(cluster.id);
    harness.until_status(cluster.id, ClusterStatus::Deleted).await;
    let history = harness.cluster(cluster.id).await;
    harness.operators.write_late(&history);
    observed(&harness).await;
    assert_eq!(collections(&harness, &history).await, []);
    assert_eq!((harness.operators.objects(), harness.operators.count(Verb::Delete)), (2, 0));
}
