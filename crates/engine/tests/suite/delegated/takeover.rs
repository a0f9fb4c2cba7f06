//! Engines that die between what they recorded and what they heard.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::time::Span;
use muster_engine::Config;
use muster_testkit::operator::{OPERATED_CLUSTER, Verb};
use rstest::rstest;

use super::{created, engine, names, open, operated, soon, told};
use crate::fixture::{Fixture, Kind, PATIENCE, exactly};

/// An engine whose heartbeat never comes: to others it is dead after a second.
async fn replace_by_a_dying_one(world: &mut Fixture) {
    world.engine.stop().await;
    let config = Config { lease: Span::from_secs(1), heartbeat: Span::from_secs(3600), ..soon() };
    world.engine = engine(world, world.store().clone(), config).await;
}

async fn take_over(world: &mut Fixture) {
    world.engine = engine(world, world.store().clone(), soon()).await;
}

fn lasting(world: &Fixture, verb: Verb) -> usize {
    world.operators.deeds().iter().filter(|deed| deed.verb == verb && deed.lasting).count()
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_write_whose_answer_nobody_heard_is_not_made_twice(#[case] kind: Kind) {
    let Some(mut world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    replace_by_a_dying_one(&mut world).await;
    let dying = world.engine.id();
    world.operators.hold_answers(Verb::Update);
    // Relative: whoever decides it twice gets another size.
    let inputs = serde_json::json!({"adjustment_type": "CHANGE_IN_CAPACITY", "number": 2});
    let resize = world.submit(ActionKind::ClusterResize, &cluster, inputs).await;
    world.operators.begun(Verb::Update, 1).await;
    take_over(&mut world).await;
    let resize = world.ended(resize).await;
    assert_eq!(resize.status, ActionStatus::Succeeded, "{}", resize.status_reason);
    assert_ne!(resize.owner, Some(dying));
    assert_eq!((lasting(&world, Verb::Update), world.operators.count(Verb::Update)), (1, 1));
    assert_eq!(world.operators.workers(cluster.id).len(), 4);
    let row = world.cluster(cluster.id).await;
    assert_eq!((row.desired(), row.generation), (4, 2));
    assert_eq!(told(&world, cluster.id, "ChangedElsewhere").await, []);
    assert_eq!(names(&world, cluster.id).await, world.operators.workers(cluster.id));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn of_a_dead_engines_late_write_and_its_successors_only_one_lasts(#[case] kind: Kind) {
    let Some(mut world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    replace_by_a_dying_one(&mut world).await;
    world.operators.hold(Verb::Update);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    world.operators.begun(Verb::Update, 1).await;
    take_over(&mut world).await;
    world.operators.begun(Verb::Update, 2).await;
    world.operators.release();
    assert_eq!(world.ended(resize).await.status, ActionStatus::Succeeded);
    assert_eq!(lasting(&world, Verb::Update), 1);
    let fences: Vec<_> = world.operators.deeds().iter().map(|deed| deed.fence).collect();
    assert!(fences.is_sorted(), "{fences:?}");
    assert_eq!(world.operators.workers(cluster.id).len(), 4);
    assert_eq!(names(&world, cluster.id).await, world.operators.workers(cluster.id));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_object_whose_making_nobody_heard_of_is_not_made_twice(#[case] kind: Kind) {
    let Some(mut world) = open(kind).await else { return };
    replace_by_a_dying_one(&mut world).await;
    world.operators.hold_answers(Verb::Create);
    let cluster = operated(OPERATED_CLUSTER, 3);
    let create = world.create(&cluster).await;
    world.operators.begun(Verb::Create, 1).await;
    take_over(&mut world).await;
    assert_eq!(world.ended(create).await.status, ActionStatus::Succeeded);
    assert_eq!((world.operators.count(Verb::Create), world.operators.objects()), (1, 1));
    assert_eq!(world.nodes(cluster.id).await.len(), 4);
    assert_eq!(names(&world, cluster.id).await, world.operators.workers(cluster.id));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_restart_whose_answer_nobody_heard_does_not_restart_the_new_head(#[case] kind: Kind) {
    let Some(mut world) = open(kind).await else { return };
    let cluster = created(&world, 1).await;
    let head = world.nodes(cluster.id).await[0].id;
    replace_by_a_dying_one(&mut world).await;
    world.operators.hold_answers(Verb::RestartHead);
    let change = muster_engine::Change {
        kind: ActionKind::NodeRecover,
        cluster: world.cluster(cluster.id).await,
        node: Some(head),
        inputs: serde_json::json!({}),
        on_conflict: muster_core::action::OnConflict::Queue,
        timeout: None,
    };
    let restart = world.engine.submit(change, crate::fixture::caller()).await.unwrap().action.id;
    world.operators.begun(Verb::RestartHead, 1).await;
    take_over(&mut world).await;
    assert_eq!(world.ended(restart).await.status, ActionStatus::Succeeded);
    assert_eq!(world.operators.count(Verb::RestartHead), 1);
    let row = world.cluster(cluster.id).await;
    assert_eq!((row.incarnation, world.nodes(cluster.id).await[0].id), (2, head));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_engine_that_stops_hands_over_what_it_waits_for(#[case] kind: Kind) {
    let Some(mut world) = open(kind).await else { return };
    let cluster = created(&world, 1).await;
    world.operators.stop();
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    world.applied(resize).await;
    world.engine.stop().await;
    assert_eq!(world.action(resize).await.status, ActionStatus::Ready);
    world.operators.go_on();
    take_over(&mut world).await;
    assert_eq!(world.ended(resize).await.status, ActionStatus::Succeeded);
    assert_eq!(world.operators.count(Verb::Update), 1);
    assert_eq!(names(&world, cluster.id).await, world.operators.workers(cluster.id));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_engine_that_stops_does_not_wait_for_a_look_that_hangs(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 1).await;
    let looks = world.operators.looks();
    world.operators.hold(Verb::Observe);
    world.operators.edit(cluster.id, |group| group.desired = 2);
    world.operators.begun(Verb::Observe, looks + 1).await;
    let stopped = tokio::time::timeout(PATIENCE.into(), world.engine.stop()).await;
    assert!(stopped.is_ok(), "it waits for a look");
}
