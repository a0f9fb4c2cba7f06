//! Failures: refusals, wrong observations, no response, cancelled actions.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::ClusterStatus;
use muster_core::node::{Node, NodeRole, NodeStatus};
use muster_core::time::TimeSpan;
use muster_engine::Config;
use muster_engine::ports::provider::ProviderError;
use muster_store::commands::SignalKind;
use muster_testkit::operator::{OPERATED_CLUSTER, ObservationFault, Verb};
use muster_testkit::{ManualClock, database_test, eventually};
use rstest::rstest;

use super::{created, ids, names, open, operated, recorded_events, soon, until, within_a_second, workers};
use crate::harness::{Harness, Kind, PATIENCE, exactly, setup};

#[database_test(open)]
async fn a_write_that_is_refused_for_good_fails_with_the_refusers_words(harness: Harness) {
    let cluster = created(&harness, 2).await;
    let words = "admission webhook denied the request: worker.replicas must be even";
    harness.operators.fail_next(Verb::Update, ProviderError::permanent("Refused", words));
    let resize = harness.resized(&cluster, 3).await;
    assert_eq!((resize.status, resize.status_reason.as_str()), (ActionStatus::Failed, words));
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.desired(), row.status), (2, ClusterStatus::Active));
    assert_eq!(harness.nodes(cluster.id).await.len(), 3, "placeholders that no operator fills");
}

#[database_test(open)]
async fn a_write_that_fails_for_the_moment_is_tried_again(harness: Harness) {
    let cluster = created(&harness, 2).await;
    harness.operators.fail_next(Verb::Update, ProviderError::transient("Busy", "429 Too Many Requests"));
    assert_eq!(harness.resized(&cluster, 3).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.operators.count(Verb::Update), 1);
    assert_eq!(harness.operators.workers(cluster.id).len(), 3);
}

#[database_test(open)]
async fn a_write_that_was_acknowledged_and_lost_is_written_again(harness: Harness) {
    let cluster = created(&harness, 2).await;
    harness.operators.lose_next(Verb::Update);
    assert_eq!(harness.resized(&cluster, 4).await.status, ActionStatus::Succeeded);
    let lasting: Vec<_> = harness.operators.calls().iter().map(|call| call.lasting).collect();
    assert_eq!(lasting, [true, false, true]);
    assert_eq!(harness.operators.workers(cluster.id).len(), 4);
    assert_eq!(harness.cluster(cluster.id).await.desired(), 4);
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
}

#[database_test(open)]
async fn an_admission_rule_that_clamps_is_named_and_mirrored(harness: Harness) {
    let cluster = created(&harness, 1).await;
    harness.operators.clamp(3);
    let resize = harness.resized(&cluster, 8).await;
    assert_eq!(resize.status, ActionStatus::Failed);
    assert!(resize.status_reason.contains("now has desired size 3"), "{}", resize.status_reason);
    until(&harness, cluster.id, "three", |row, nodes| row.desired() == 3 && nodes.len() == 4).await;
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
}

#[database_test]
async fn an_operator_that_makes_fewer_in_silence_is_waited_for_until_the_time_is_over(kind: Kind) {
    let clock = ManualClock::default();
    let Some(harness) = setup().clock(&clock).open(kind).await else { return };
    let cluster = created(&harness, 1).await;
    harness.operators.limit_silently(2);
    let resize = within_a_second(&harness, ActionKind::ClusterResize, &cluster, exactly(4)).await;
    let active = |nodes: &[Node]| {
        let works = |node: &&Node| node.role == NodeRole::Worker && node.status == NodeStatus::Active;
        nodes.iter().filter(works).count()
    };
    until(&harness, cluster.id, "two workers that work", |_, nodes| active(nodes) == 2).await;
    clock.advance(TimeSpan::from_secs(1));
    let resize = harness.ended(resize).await;
    assert_eq!(resize.status, ActionStatus::Failed);
    let words = "TIMEOUT: it did not end within 1 seconds: group 'default': 2 of 4 workers work";
    assert_eq!(resize.status_reason, words);
    assert_eq!(harness.cluster(cluster.id).await.status, ClusterStatus::Warning);
}

#[database_test(open)]
async fn an_operator_that_will_not_act_ends_it_with_its_words(harness: Harness) {
    let cluster = created(&harness, 1).await;
    harness.operators.stop();
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    harness.applied(resize).await;
    harness.operators.refuse(cluster.id, "InvalidSpec: the name is longer than 53 characters");
    let resize = harness.ended(resize).await;
    assert_eq!(
        (resize.status, resize.status_reason.as_str()),
        (ActionStatus::Failed, "InvalidSpec: the name is longer than 53 characters")
    );
}

#[rstest]
#[case::sqlite_blind(Kind::Sqlite, ObservationFault::Blind)]
#[case::postgres_blind(Kind::Postgres, ObservationFault::Blind)]
#[case::sqlite_unknown(Kind::Sqlite, ObservationFault::Unknown)]
#[case::postgres_unknown(Kind::Postgres, ObservationFault::Unknown)]
#[tokio::test]
async fn while_the_state_is_unknown_nothing_is_written_and_nothing_is_gone(
    #[case] kind: Kind,
    #[case] lie: ObservationFault,
) {
    let Some(harness) = open(kind).await else { return };
    let cluster = created(&harness, 2).await;
    let before = harness.nodes(cluster.id).await;
    harness.operators.lie(Some(lie));
    harness.operators.remove(cluster.id);
    harness.operators.release();
    let observations = harness.operators.observations();
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    eventually("the resize runs", PATIENCE, async || {
        let status = harness.action(resize).await.status;
        if status == ActionStatus::Running { Ok(()) } else { Err(status) }
    })
    .await;
    // One observation by the observer and one by the action.
    harness.operators.begun(Verb::Observe, observations + 2).await;
    assert_eq!(harness.action(resize).await.status, ActionStatus::Running);
    assert_eq!(harness.operators.count(Verb::Update), 0);
    assert_eq!(harness.nodes(cluster.id).await, before);
    assert_eq!(harness.cluster(cluster.id).await.deleted_at, None);
    harness.operators.lie(None);
    assert_eq!(harness.ended(resize).await.status_reason, "the cluster was deleted elsewhere");
    harness.until_status(cluster.id, ClusterStatus::Deleted).await;
}

#[database_test(open)]
async fn a_resize_cancelled_after_its_write_leaves_what_was_written_to_the_operator(harness: Harness) {
    let cluster = created(&harness, 2).await;
    harness.operators.stop();
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    harness.applied(resize).await;
    let asked = workers(harness.nodes(cluster.id).await);
    harness.engine.signal(resize, SignalKind::Cancel, None).await.unwrap();
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Cancelled);
    assert_eq!(harness.cluster(cluster.id).await.status, ClusterStatus::Warning);
    assert_eq!(ids(&workers(harness.nodes(cluster.id).await)), ids(&asked));
    harness.operators.resume();
    until(&harness, cluster.id, "four", |row, nodes| {
        row.status == ClusterStatus::Active && nodes.iter().all(|node| node.status == NodeStatus::Active)
    })
    .await;
    let after = workers(harness.nodes(cluster.id).await);
    assert_eq!(ids(&after), ids(&asked), "the ids that were assigned");
    assert_eq!(recorded_events(&harness, cluster.id, "ChangedElsewhere").await, []);
}

#[database_test(open)]
async fn a_resize_cancelled_before_its_write_changes_nothing(harness: Harness) {
    let cluster = created(&harness, 2).await;
    harness.operators.hold(Verb::Update);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    harness.operators.begun(Verb::Update, 1).await;
    harness.engine.signal(resize, SignalKind::Cancel, None).await.unwrap();
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Cancelled);
    harness.operators.release();
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.desired(), row.status), (2, ClusterStatus::Active));
    assert_eq!(harness.operators.count(Verb::Update), 0);
    assert_eq!(harness.nodes(cluster.id).await.len(), 3);
}

#[database_test]
async fn clusters_with_an_idle_operator_do_not_block_others(kind: Kind) {
    let one_hand = Config { parallel_actions: 1, ..soon() };
    let Some(harness) = setup().config(one_hand).open(kind).await else { return };
    harness.operators.stop();
    let mut creates = Vec::new();
    for _ in 0..3 {
        let create = harness.create(&operated(OPERATED_CLUSTER, 1)).await;
        let applied = harness.applied(create).await;
        assert!(applied.applied_at.is_some(), "it waits for a hand: {applied:?}");
        creates.push(create);
    }
    harness.operators.resume();
    for create in creates {
        assert_eq!(harness.ended(create).await.status, ActionStatus::Succeeded);
    }
}
