//! Parts of an action: in their parent's hands, and shown as their parent is.

use crate::fixture::{self, Fixture, Kind, action_id, claim, living, record, ticket};
use muster_core::action::{Action, ActionKind, ActionStatus, Control, OnConflict, Target};
use muster_core::ids::NodeId;
use muster_core::sample;
use muster_store::commands::{Claimed, PutBack, Record, Signal, SignalKind};
use muster_store::{Store, StoreError};
use rstest::rstest;
use uuid::Uuid;

/// A running creation with one part.
async fn begun(world: &Fixture) -> Claimed {
    world.create(1).await;
    let engine = living(&world.store, 9).await;
    let parent = world.store.claim(claim(engine)).await.expect("a claim").remove(0);
    let child = Action {
        target: Target::Node(NodeId::from_uuid(Uuid::from_u128(5))),
        parent: Some(parent.action.id),
        status: ActionStatus::Running,
        ..sample::action(2, ActionKind::NodeCreate, fixture::cluster(1).id)
    };
    world.store.record(Record { children: vec![child], ..record(&parent) }).await.expect("recorded");
    parent
}

async fn signal(store: &Store, number: u128, kind: SignalKind) -> Result<Action, StoreError> {
    store.signal(Signal { id: action_id(number), kind, now: fixture::now(3_000) }).await
}

async fn put_back(store: &Store, parent: &Claimed, suspend: bool) {
    let back = PutBack {
        ticket: ticket(parent),
        not_before: Some(fixture::now(i64::MAX)),
        suspend,
        count: false,
        reason: "for a while".to_owned(),
        now: fixture::now(4_000),
    };
    store.put_back(back).await.expect("it is put back");
}

async fn status(store: &Store, number: u128) -> ActionStatus {
    store.action(action_id(number)).await.expect("the store answers").expect("it is there").status
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_part_can_be_cancelled_and_its_parent_is_told(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let parent = begun(&world).await;
    let child = signal(&world.store, 2, SignalKind::Cancel).await.unwrap();
    assert_eq!((child.status, child.control), (ActionStatus::Running, Some(Control::Cancel)));
    let told = world.store.told(parent.action.id).await.unwrap().unwrap();
    assert_eq!((told.control, told.cancelled_parts), (None, vec![action_id(2)]));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_part_cannot_be_suspended_or_resumed_alone(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    begun(&world).await;
    for (kind, word) in [(SignalKind::Suspend, "suspended"), (SignalKind::Resume, "resumed")] {
        let refused = signal(&world.store, 2, kind).await.unwrap_err();
        let (child, parent) = (action_id(2), action_id(1));
        let sentence = format!(
            "action {child} is a part of action {parent} and cannot be {word} alone: tell {parent} instead"
        );
        assert_eq!(refused.to_string(), sentence);
    }
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn parts_are_suspended_and_resumed_with_their_parent(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let store = &world.store;
    let parent = begun(&world).await;
    signal(store, 1, SignalKind::Suspend).await.unwrap();
    assert_eq!(status(store, 2).await, ActionStatus::Running, "its parent still runs");
    put_back(store, &parent, true).await;
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

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_was_begun_is_taken_up_before_a_more_urgent_action(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let store = &world.store;
    let parent = begun(&world).await;
    put_back(store, &parent, false).await;
    let cluster = fixture::cluster(1).id;
    let engine = parent.action.owner.unwrap();
    let delete = fixture::request(3, ActionKind::ClusterDelete, cluster, OnConflict::Preempt);
    store.accept(delete).await.unwrap();
    // It pauses, and is told to end: it does not sleep through that, and the deletion does not keep it from ending.
    let claimed = store.claim(claim(engine)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!((claimed[0].action.id, claimed[0].action.control), (action_id(1), Some(Control::Cancel)));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn one_that_was_told_to_end_is_put_back_without_a_pause(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let parent = begun(&world).await;
    signal(&world.store, 1, SignalKind::Cancel).await.unwrap();
    put_back(&world.store, &parent, false).await;
    assert_eq!(world.store.action(action_id(1)).await.unwrap().unwrap().not_before, None);
}
