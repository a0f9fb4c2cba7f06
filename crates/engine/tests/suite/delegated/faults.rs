//! What goes wrong on the way: refusals, lies, silence, and people who change their minds.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::ClusterStatus;
use muster_core::node::{Node, NodeRole, NodeStatus};
use muster_core::time::Span;
use muster_engine::Config;
use muster_engine::ports::provider::ProviderError;
use muster_store::commands::SignalKind;
use muster_testkit::ManualClock;
use muster_testkit::operator::{Lie, OPERATED_CLUSTER, Verb};
use rstest::rstest;

use super::{created, ids, names, open, operated, soon, told, until, within_a_second, workers};
use crate::fixture::{Fixture, Kind, exactly};

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_write_that_is_refused_for_good_fails_with_the_refusers_words(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    let words = "admission webhook denied the request: worker.replicas must be even";
    world.operators.fail_next(Verb::Update, ProviderError::permanent("Refused", words));
    let resize = world.resized(&cluster, 3).await;
    assert_eq!((resize.status, resize.status_reason.as_str()), (ActionStatus::Failed, words));
    let row = world.cluster(cluster.id).await;
    assert_eq!((row.desired(), row.status), (2, ClusterStatus::Active));
    assert_eq!(world.nodes(cluster.id).await.len(), 3, "placeholders for what nobody makes");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_write_that_fails_for_the_moment_is_tried_again(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    world.operators.fail_next(Verb::Update, ProviderError::transient("Busy", "429 Too Many Requests"));
    assert_eq!(world.resized(&cluster, 3).await.status, ActionStatus::Succeeded);
    assert_eq!(world.operators.count(Verb::Update), 1);
    assert_eq!(world.operators.workers(cluster.id).len(), 3);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_write_that_was_acknowledged_and_lost_is_written_again(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    world.operators.lose_next(Verb::Update);
    assert_eq!(world.resized(&cluster, 4).await.status, ActionStatus::Succeeded);
    let lasting: Vec<_> = world.operators.deeds().iter().map(|deed| deed.lasting).collect();
    assert_eq!(lasting, [true, false, true]);
    assert_eq!(world.operators.workers(cluster.id).len(), 4);
    assert_eq!(world.cluster(cluster.id).await.desired(), 4);
    assert_eq!(names(&world, cluster.id).await, world.operators.workers(cluster.id));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_admission_rule_that_clamps_is_named_and_mirrored(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 1).await;
    world.operators.clamp(3);
    let resize = world.resized(&cluster, 8).await;
    assert_eq!(resize.status, ActionStatus::Failed);
    assert!(resize.status_reason.contains("shall now have 3 workers"), "{}", resize.status_reason);
    until(&world, cluster.id, "three", |row, nodes| row.desired() == 3 && nodes.len() == 4).await;
    assert_eq!(names(&world, cluster.id).await, world.operators.workers(cluster.id));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_operator_that_makes_fewer_in_silence_is_waited_for_until_the_time_is_over(#[case] kind: Kind) {
    let clock = ManualClock::default();
    let Some(world) = Fixture::open_by(kind, &clock).await else { return };
    let cluster = created(&world, 1).await;
    world.operators.limit_silently(2);
    let resize = within_a_second(&world, ActionKind::ClusterResize, &cluster, exactly(4)).await;
    let active = |nodes: &[Node]| {
        let works = |node: &&Node| node.role == NodeRole::Worker && node.status == NodeStatus::Active;
        nodes.iter().filter(works).count()
    };
    until(&world, cluster.id, "two workers that work", |_, nodes| active(nodes) == 2).await;
    clock.advance(Span::from_secs(1));
    let resize = world.ended(resize).await;
    assert_eq!(resize.status, ActionStatus::Failed);
    let words = "TIMEOUT: it did not end within 1 seconds: group 'default': 2 of 4 workers work";
    assert_eq!(resize.status_reason, words);
    assert_eq!(world.cluster(cluster.id).await.status, ClusterStatus::Warning);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_operator_that_will_not_act_ends_it_with_its_words(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 1).await;
    world.operators.stop();
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    world.applied(resize).await;
    world.operators.refuse(cluster.id, "InvalidSpec: the name is longer than 53 characters");
    let resize = world.ended(resize).await;
    assert_eq!(
        (resize.status, resize.status_reason.as_str()),
        (ActionStatus::Failed, "InvalidSpec: the name is longer than 53 characters")
    );
}

#[rstest]
#[case::sqlite_blind(Kind::Sqlite, Lie::Blind)]
#[case::postgres_blind(Kind::Postgres, Lie::Blind)]
#[case::sqlite_unknown(Kind::Sqlite, Lie::Unknown)]
#[case::postgres_unknown(Kind::Postgres, Lie::Unknown)]
#[tokio::test]
async fn while_nobody_can_tell_nothing_is_written_and_nothing_is_gone(#[case] kind: Kind, #[case] lie: Lie) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    let before = world.nodes(cluster.id).await;
    world.operators.lie(Some(lie));
    world.operators.remove(cluster.id);
    world.operators.release();
    let looks = world.operators.looks();
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    // The observer's looks and the action's own.
    world.operators.begun(Verb::Observe, looks + 4).await;
    assert_eq!(world.action(resize).await.status, ActionStatus::Running);
    assert_eq!(world.operators.count(Verb::Update), 0);
    assert_eq!(world.nodes(cluster.id).await, before);
    assert_eq!(world.cluster(cluster.id).await.deleted_at, None);
    world.operators.lie(None);
    assert_eq!(world.ended(resize).await.status_reason, "the cluster was deleted elsewhere");
    world.until_status(cluster.id, ClusterStatus::Deleted).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_resize_cancelled_after_its_write_leaves_what_was_written_to_the_operator(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    world.operators.stop();
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    world.applied(resize).await;
    let asked = workers(world.nodes(cluster.id).await);
    world.engine.signal(resize, SignalKind::Cancel).await.unwrap();
    assert_eq!(world.ended(resize).await.status, ActionStatus::Cancelled);
    assert_eq!(world.cluster(cluster.id).await.status, ClusterStatus::Warning);
    assert_eq!(ids(&workers(world.nodes(cluster.id).await)), ids(&asked));
    world.operators.go_on();
    until(&world, cluster.id, "four", |row, nodes| {
        row.status == ClusterStatus::Active && nodes.iter().all(|node| node.status == NodeStatus::Active)
    })
    .await;
    let after = workers(world.nodes(cluster.id).await);
    assert_eq!(ids(&after), ids(&asked), "the ids that were given out");
    assert_eq!(told(&world, cluster.id, "ChangedElsewhere").await, []);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_resize_cancelled_before_its_write_changes_nothing(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    world.operators.hold(Verb::Update);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    world.operators.begun(Verb::Update, 1).await;
    world.engine.signal(resize, SignalKind::Cancel).await.unwrap();
    assert_eq!(world.ended(resize).await.status, ActionStatus::Cancelled);
    world.operators.release();
    let row = world.cluster(cluster.id).await;
    assert_eq!((row.desired(), row.status), (2, ClusterStatus::Active));
    assert_eq!(world.operators.count(Verb::Update), 0);
    assert_eq!(world.nodes(cluster.id).await.len(), 3);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn clusters_whose_operator_does_nothing_keep_nobody_else_waiting(#[case] kind: Kind) {
    let one_hand = Config { parallel_actions: 1, ..soon() };
    let Some(world) = Fixture::open_config(kind, one_hand).await else { return };
    world.operators.stop();
    let mut creates = Vec::new();
    for _ in 0..3 {
        let create = world.create(&operated(OPERATED_CLUSTER, 1)).await;
        let applied = world.applied(create).await;
        assert!(applied.applied_at.is_some(), "it waits for a hand: {applied:?}");
        creates.push(create);
    }
    world.operators.go_on();
    for create in creates {
        assert_eq!(world.ended(create).await.status, ActionStatus::Succeeded);
    }
}
