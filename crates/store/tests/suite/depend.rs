//! Actions that wait for others.

use crate::fixture::{self, Fixture, Kind, action_id, claim, creation, living, record};
use muster_core::action::{Action, ActionStatus};
use muster_store::commands::{Accept, Claimed, End, Record, Signal, SignalKind};
use muster_store::{Store, StoreError};
use rstest::rstest;

async fn accept_after(store: &Store, number: u128, depends_on: &[u128]) -> Action {
    let depends_on = depends_on.iter().copied().map(action_id).collect();
    let accepted = store.accept(Accept { depends_on, ..creation(number) }).await;
    accepted.expect("accepted").action
}

async fn read(store: &Store, number: u128) -> Action {
    store.action(action_id(number)).await.expect("the store answers").expect("the action is there")
}

async fn end(store: &Store, claimed: &Claimed, status: ActionStatus) {
    let end = Some(End { status, reason: "so it is".to_owned() });
    store.record(Record { end, ..record(claimed) }).await.expect("it ends");
}

async fn signal(store: &Store, number: u128, kind: SignalKind) -> ActionStatus {
    let told = store.signal(Signal { id: action_id(number), kind, now: fixture::now(3_000) }).await;
    told.expect("told").status
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_depends_on_actions_that_have_ended_does_not_wait_for_them(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let store = &world.store;
    world.create(1).await;
    world.create(2).await;
    assert_eq!(accept_after(store, 3, &[1]).await.status, ActionStatus::Waiting);
    let engine = living(store, 9).await;
    let begun = store.claim(claim(engine)).await.unwrap();
    end(store, &begun[0], ActionStatus::Succeeded).await;
    end(store, &begun[1], ActionStatus::Failed).await;
    assert_eq!(accept_after(store, 4, &[1]).await.status, ActionStatus::Ready);
    let failed = accept_after(store, 5, &[1, 2]).await;
    assert_eq!(failed.status, ActionStatus::Failed);
    let why = format!("Action {}, which it depends on, ended as FAILED: so it is", action_id(2));
    assert_eq!(failed.status_reason, why);
    assert_eq!(read(store, 5).await, failed);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_unknown_dependency_is_refused(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let depends_on = vec![action_id(77)];
    let refused = world.store.accept(Accept { depends_on, ..creation(1) }).await;
    assert!(matches!(refused, Err(StoreError::NotFound { kind: "action", .. })), "{refused:?}");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_failure_ends_all_that_waits_for_it_directly_or_not(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let store = &world.store;
    world.create(1).await;
    accept_after(store, 2, &[1]).await;
    accept_after(store, 3, &[2]).await;
    accept_after(store, 4, &[1]).await;
    assert_eq!(signal(store, 4, SignalKind::Suspend).await, ActionStatus::Suspended);
    let engine = living(store, 9).await;
    let first = store.claim(claim(engine)).await.unwrap().remove(0);
    end(store, &first, ActionStatus::Failed).await;
    for (number, cause) in [(2, 1), (3, 2), (4, 1)] {
        let action = read(store, number).await;
        assert_eq!((action.status, action.ended_at.is_some()), (ActionStatus::Failed, true));
        let why = format!("Action {}, which it depends on, ended as FAILED: ", action_id(cause));
        assert!(action.status_reason.starts_with(&why), "{}", action.status_reason);
    }
    assert!(store.claim(claim(engine)).await.unwrap().is_empty(), "one of them was woken");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_depends_on_a_cancelled_action_fails(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let store = &world.store;
    world.create(1).await;
    accept_after(store, 2, &[1]).await;
    assert_eq!(signal(store, 1, SignalKind::Cancel).await, ActionStatus::Cancelled);
    let action = read(store, 2).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.contains("ended as CANCELLED"), "{}", action.status_reason);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_resumed_action_still_waits_for_what_it_depends_on(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let store = &world.store;
    world.create(1).await;
    accept_after(store, 2, &[1]).await;
    signal(store, 2, SignalKind::Suspend).await;
    assert_eq!(signal(store, 2, SignalKind::Resume).await, ActionStatus::Waiting);
    let engine = living(store, 9).await;
    let first = store.claim(claim(engine)).await.unwrap();
    assert_eq!(first.len(), 1, "it was claimed before its time");
    signal(store, 2, SignalKind::Suspend).await;
    end(store, &first[0], ActionStatus::Succeeded).await;
    assert_eq!(read(store, 2).await.status, ActionStatus::Suspended, "nobody resumed it");
    assert_eq!(signal(store, 2, SignalKind::Resume).await, ActionStatus::Ready);
}

#[tokio::test]
async fn two_that_end_at_the_same_moment_wake_what_waits_for_both() {
    let Some(world) = Fixture::open(Kind::Postgres).await else { return };
    let store = &world.store;
    for round in 0..20 {
        let number = round * 3 + 1;
        world.create(number).await;
        world.create(number + 1).await;
        accept_after(store, number + 2, &[number, number + 1]).await;
        let engine = living(store, 1_000 + round).await;
        let both = store.claim(claim(engine)).await.unwrap();
        tokio::join!(
            end(store, &both[0], ActionStatus::Succeeded),
            end(store, &both[1], ActionStatus::Succeeded)
        );
        let woken = store.claim(claim(engine)).await.unwrap();
        assert_eq!(woken.len(), 1, "round {round}");
        end(store, &woken[0], ActionStatus::Succeeded).await;
    }
}
