//! A world that fails, in all the ways it can.

use muster_core::action::ActionStatus;
use muster_testkit::world::{Control, FalseObservation, Outcome, Verb, WORLD_CLUSTER};
use rstest::rstest;

use crate::facts::{self, Expected};
use crate::harness::{Harness, Kind, UNHURRIED, created, grow, new_cluster, succeeded};

#[rstest]
#[case::ends_right_after_its_start(Control::DieAfterStart(1), 1)]
#[case::fails_for_the_moment(Control::FailAt { verb: Verb::Start, call: 2, transient: true }, 0)]
#[case::is_slow(Control::Slow(Verb::Start, 300), 0)]
#[tokio::test]
async fn a_cluster_is_created_although_a_node(#[case] fault: Control, #[case] again: usize) {
    let Some(harness) = Harness::open(Kind::Sqlite).await else { return };
    let engine = harness.engine_at(UNHURRIED).await;
    harness.world.control(fault).await;
    let cluster = new_cluster();
    let create = engine.create(cluster, WORLD_CLUSTER, 2).await.id;
    succeeded(&engine.end(create).await);
    facts::agree(&harness, cluster, Expected { workers: Some(2), made: 3, again }).await;
}

#[tokio::test]
async fn a_permanent_failure_is_reported_and_not_retried() {
    let Some(harness) = Harness::open(Kind::Sqlite).await else { return };
    let engine = harness.engine_at(UNHURRIED).await;
    harness.world.control(Control::FailAt { verb: Verb::Start, call: 3, transient: false }).await;
    let create = engine.create(new_cluster(), WORLD_CLUSTER, 2).await.id;
    let action = engine.end(create).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.contains("a fault was injected"), "{}", action.status_reason);
    assert_eq!(harness.world.count(Verb::Start, Outcome::Failed), 1);
}

#[tokio::test]
async fn nothing_is_done_while_the_world_is_unknown() {
    let Some(harness) = Harness::open(Kind::Sqlite).await else { return };
    let engine = harness.engine_at(UNHURRIED).await;
    let cluster = created(&engine, 1).await;
    let calls = harness.world.log().len();
    harness.world.control(Control::Lie(Some(FalseObservation::Blind))).await;
    let resize = grow(&engine, cluster, 1).await;
    engine.says("cannot observe").await;
    assert_eq!(harness.world.log().len(), calls, "{}", harness.world.tail());
    harness.world.control(Control::Lie(None)).await;
    succeeded(&engine.end(resize).await);
    facts::agree(&harness, cluster, Expected { workers: Some(2), made: 3, again: 0 }).await;
}
