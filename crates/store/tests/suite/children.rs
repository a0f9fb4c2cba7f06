//! Child actions, which are signalled, suspended and resumed with their parent.

use crate::harness::{self, Harness, Kind, action_id, claim, living, record, ticket};
use muster_core::action::{Action, ActionKind, ActionStatus, Control, OnConflict, Target};
use muster_core::ids::NodeId;
use muster_core::sample;
use muster_store::commands::{Claimed, Record, Requeue, Signal, SignalKind};
use muster_store::{Store, StoreError};
use muster_testkit::database_test;
use uuid::Uuid;

/// A running creation with one child action.
async fn begun(harness: &Harness) -> Claimed {
    harness.create(1).await;
    let engine = living(&harness.store, 9).await;
    let parent = harness.store.claim(claim(engine)).await.expect("a claim").remove(0);
    let child = Action {
        target: Target::Node(NodeId::from_uuid(Uuid::from_u128(5))),
        parent: Some(parent.action.id),
        status: ActionStatus::Running,
        ..sample::action(2, ActionKind::NodeCreate, harness::cluster(1).id)
    };
    harness.store.record(Record { children: vec![child], ..record(&parent) }).await.expect("recorded");
    parent
}

async fn signal(store: &Store, number: u128, kind: SignalKind) -> Result<Action, StoreError> {
    store.signal(Signal { id: action_id(number), kind, now: harness::now(3_000), request: None }).await
}

async fn requeue(store: &Store, parent: &Claimed, suspend: bool) {
    let back = Requeue {
        ticket: ticket(parent),
        not_before: Some(harness::now(i64::MAX)),
        suspend,
        count: false,
        reason: "for a while".to_owned(),
        above: None,
        now: harness::now(4_000),
    };
    store.requeue(back).await.expect("it is requeued");
}

async fn status(store: &Store, number: u128) -> ActionStatus {
    store.action(action_id(number)).await.expect("the store answers").expect("it is there").status
}

#[database_test]
async fn a_part_can_be_cancelled_and_its_parent_is_notified(harness: Harness) {
    let parent = begun(&harness).await;
    let child = signal(&harness.store, 2, SignalKind::Cancel).await.unwrap();
    assert_eq!((child.status, child.control), (ActionStatus::Running, Some(Control::Cancel)));
    let signals = harness.store.signals(parent.action.id).await.unwrap().unwrap();
    assert_eq!((signals.control, signals.cancelled_children), (None, vec![action_id(2)]));
}

#[database_test]
async fn a_part_cannot_be_suspended_or_resumed_alone(kind: Kind) {
    let Some(harness) = Harness::open(kind).await else { return };
    begun(&harness).await;
    for (kind, word) in [(SignalKind::Suspend, "suspended"), (SignalKind::Resume, "resumed")] {
        let refused = signal(&harness.store, 2, kind).await.unwrap_err();
        let (child, parent) = (action_id(2), action_id(1));
        let sentence = format!(
            "action {child} is a part of action {parent} and cannot be {word} alone: signal {parent} instead"
        );
        assert_eq!(refused.to_string(), sentence);
    }
}

#[database_test]
async fn parts_are_suspended_and_resumed_with_their_parent(harness: Harness) {
    let store = &harness.store;
    let parent = begun(&harness).await;
    signal(store, 1, SignalKind::Suspend).await.unwrap();
    assert_eq!(status(store, 2).await, ActionStatus::Running, "its parent still runs");
    requeue(store, &parent, true).await;
    assert_eq!(
        (status(store, 1).await, status(store, 2).await),
        (ActionStatus::Suspended, ActionStatus::Suspended)
    );
    signal(store, 1, SignalKind::Resume).await.unwrap();
    assert_eq!(
        (status(store, 1).await, status(store, 2).await),
        (ActionStatus::Ready, ActionStatus::Running)
    );
}

#[database_test]
async fn what_was_begun_is_taken_up_before_a_more_urgent_action(harness: Harness) {
    let store = &harness.store;
    let parent = begun(&harness).await;
    requeue(store, &parent, false).await;
    let cluster = harness::cluster(1).id;
    let engine = parent.action.owner.unwrap();
    let delete = harness::request(3, ActionKind::ClusterDelete, cluster, OnConflict::Preempt);
    store.accept(delete).await.unwrap();
    // A signal to cancel ends the back-off of an action, and the waiting deletion does not keep it from being claimed.
    let claimed = store.claim(claim(engine)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!((claimed[0].action.id, claimed[0].action.control), (action_id(1), Some(Control::Cancel)));
}

#[database_test]
async fn an_action_with_a_signal_to_end_is_requeued_without_a_pause(harness: Harness) {
    let parent = begun(&harness).await;
    signal(&harness.store, 1, SignalKind::Cancel).await.unwrap();
    requeue(&harness.store, &parent, false).await;
    assert_eq!(harness.store.action(action_id(1)).await.unwrap().unwrap().not_before, None);
}
