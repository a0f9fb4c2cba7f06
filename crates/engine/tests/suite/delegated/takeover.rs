//! Engines that die between a recorded write and its response.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::change::{Change, Recovery};
use muster_core::time::TimeSpan;
use muster_engine::Config;
use muster_testkit::database_test;
use muster_testkit::operator::{OPERATED_CLUSTER, Verb};

use super::{created, engine, names, open, operated, recorded_events, soon};
use crate::harness::{Harness, PATIENCE, exactly};

/// Starts an engine whose heartbeat never renews the lease: for others it is dead after a second.
pub(super) async fn replace_by_a_dying_one(harness: &mut Harness) {
    harness.engine.stop().await;
    let config = Config { lease: TimeSpan::from_secs(1), heartbeat: TimeSpan::from_secs(3600), ..soon() };
    harness.engine = engine(harness, harness.store().clone(), config).await;
}

pub(super) async fn take_over(harness: &mut Harness) {
    harness.engine = engine(harness, harness.store().clone(), soon()).await;
}

fn lasting(harness: &Harness, verb: Verb) -> usize {
    harness.operators.calls().iter().filter(|call| call.verb == verb && call.lasting).count()
}

#[database_test(open)]
async fn a_write_whose_response_was_lost_is_not_repeated(mut harness: Harness) {
    let cluster = created(&harness, 2).await;
    replace_by_a_dying_one(&mut harness).await;
    let dying = harness.engine.id();
    harness.operators.hold_answers(Verb::Update);
    // Relative: deciding it twice would give another size.
    let inputs = serde_json::json!({"adjustment_type": "CHANGE_IN_CAPACITY", "number": 2});
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, inputs).await;
    harness.operators.begun(Verb::Update, 1).await;
    take_over(&mut harness).await;
    let resize = harness.ended(resize).await;
    assert_eq!(resize.status, ActionStatus::Succeeded, "{}", resize.status_reason);
    assert_ne!(resize.owner, Some(dying));
    assert_eq!((lasting(&harness, Verb::Update), harness.operators.count(Verb::Update)), (1, 1));
    assert_eq!(harness.operators.workers(cluster.id).len(), 4);
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.desired(), row.generation), (4, 2));
    assert_eq!(recorded_events(&harness, cluster.id, "ChangedElsewhere").await, []);
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
}

#[database_test(open)]
async fn of_a_dead_engines_late_write_and_its_successors_only_one_lasts(mut harness: Harness) {
    let cluster = created(&harness, 2).await;
    replace_by_a_dying_one(&mut harness).await;
    harness.operators.hold(Verb::Update);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    harness.operators.begun(Verb::Update, 1).await;
    take_over(&mut harness).await;
    harness.operators.begun(Verb::Update, 2).await;
    harness.operators.release();
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Succeeded);
    assert_eq!(lasting(&harness, Verb::Update), 1);
    let fences: Vec<_> = harness.operators.calls().iter().map(|call| call.fence).collect();
    assert!(fences.is_sorted(), "{fences:?}");
    assert_eq!(harness.operators.workers(cluster.id).len(), 4);
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
}

#[database_test(open)]
async fn a_creation_whose_response_was_lost_is_not_repeated(mut harness: Harness) {
    replace_by_a_dying_one(&mut harness).await;
    harness.operators.hold_answers(Verb::Create);
    let cluster = operated(OPERATED_CLUSTER, 3);
    let create = harness.create(&cluster).await;
    harness.operators.begun(Verb::Create, 1).await;
    take_over(&mut harness).await;
    assert_eq!(harness.ended(create).await.status, ActionStatus::Succeeded);
    assert_eq!((harness.operators.count(Verb::Create), harness.operators.objects()), (1, 1));
    assert_eq!(harness.nodes(cluster.id).await.len(), 4);
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
}

#[database_test(open)]
async fn a_restart_whose_response_was_lost_does_not_restart_the_new_head(mut harness: Harness) {
    let cluster = created(&harness, 1).await;
    let head = harness.nodes(cluster.id).await[0].id;
    replace_by_a_dying_one(&mut harness).await;
    harness.operators.hold_answers(Verb::RestartHead);
    let change = muster_engine::ChangeRequest {
        change: Change::RecoverNode(Recovery::default()),
        cluster: harness.cluster(cluster.id).await,
        node: Some(head),

        on_conflict: muster_core::action::OnConflict::Queue,
        timeout: None,
    };
    let restart = harness.engine.submit(change, crate::harness::caller()).await.unwrap().action.id;
    harness.operators.begun(Verb::RestartHead, 1).await;
    take_over(&mut harness).await;
    assert_eq!(harness.ended(restart).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.operators.count(Verb::RestartHead), 1);
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.incarnation, harness.nodes(cluster.id).await[0].id), (2, head));
}

#[database_test(open)]
async fn an_engine_that_stops_hands_over_what_it_waits_for(mut harness: Harness) {
    let cluster = created(&harness, 1).await;
    harness.operators.stop();
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    harness.applied(resize).await;
    harness.engine.stop().await;
    assert_eq!(harness.action(resize).await.status, ActionStatus::Ready);
    harness.operators.resume();
    take_over(&mut harness).await;
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.operators.count(Verb::Update), 1);
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
}

#[database_test(open)]
async fn a_stopping_engine_does_not_wait_for_a_hanging_observation(harness: Harness) {
    let cluster = created(&harness, 1).await;
    let observations = harness.operators.observations();
    harness.operators.hold(Verb::Observe);
    harness.operators.edit(cluster.id, |group| group.desired = 2);
    harness.operators.begun(Verb::Observe, observations + 1).await;
    let stopped = tokio::time::timeout(PATIENCE.into(), harness.engine.stop()).await;
    assert!(stopped.is_ok(), "it waits for an observation");
}
