//! A later change does not wait until an operator has completed an earlier one.

use muster_core::action::{ActionKind, ActionStatus, SUPERSEDED_OUTPUT};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::Level;
use muster_core::ids::ActionId;
use muster_core::restart::ReplacedHead;
use muster_testkit::database_test;
use muster_testkit::operator::{OPERATED_CLUSTER, Verb};

use super::{created, open, operated, recorded_events, restart, restarted};
use crate::harness::{Harness, exactly};

async fn resize(harness: &Harness, cluster: &Cluster, size: u32) -> ActionId {
    harness.submit(ActionKind::ClusterResize, cluster, exactly(size)).await
}

#[database_test(open)]
async fn a_later_change_runs_as_soon_as_the_earlier_one_is_applied(harness: Harness) {
    let cluster = created(&harness, 1).await;
    harness.operators.stop();
    let first = resize(&harness, &cluster, 3).await;
    harness.applied(first).await;
    let second = resize(&harness, &cluster, 2).await;
    harness.applied(second).await;
    let first = harness.ended(first).await;
    assert_eq!(first.status, ActionStatus::Cancelled);
    assert!(first.status_reason.starts_with("Superseded: its change is applied"), "{}", first.status_reason);
    harness.operators.resume();
    assert_eq!(harness.ended(second).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.cluster(cluster.id).await.desired(), 2);
}

#[database_test(open)]
async fn every_change_is_applied_in_its_turn(harness: Harness) {
    let cluster = created(&harness, 1).await;
    harness.operators.hold(Verb::Update);
    let mut changes = Vec::new();
    for size in [3, 4, 2] {
        changes.push(resize(&harness, &cluster, size).await);
    }
    harness.operators.release();
    for change in &changes {
        harness.applied(*change).await;
    }
    let last = harness.ended(changes[2]).await;
    assert_eq!((last.status, harness.cluster(cluster.id).await.desired()), (ActionStatus::Succeeded, 2));
    assert_eq!(harness.operators.count(Verb::Update), 3);
}

#[database_test(open)]
async fn a_later_change_completes_a_creation(harness: Harness) {
    harness.operators.stop();
    let cluster = operated(OPERATED_CLUSTER, 3);
    let create = harness.create(&cluster).await;
    harness.applied(create).await;
    let resize = resize(&harness, &cluster, 0).await;
    harness.applied(resize).await;
    let create = harness.ended(create).await;
    assert_eq!(create.status, ActionStatus::Cancelled);
    assert_eq!(create.outputs[SUPERSEDED_OUTPUT], true);
    // There is no worker to wait for, but the head was not created yet.
    let waiting = harness.cluster(cluster.id).await;
    assert_eq!((waiting.status, waiting.created_at), (ClusterStatus::Creating, None));
    harness.operators.resume();
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Succeeded);
    let created = harness.cluster(cluster.id).await;
    assert_eq!((created.status, created.desired()), (ClusterStatus::Active, 0));
    assert!(created.created_at.is_some());
    let ends = recorded_events(&harness, cluster.id, "CLUSTER_CREATE").await;
    assert!(ends.iter().all(|event| event.level == Level::Info), "{ends:?}");
}

#[database_test(open)]
async fn a_restart_of_the_head_waits_for_the_creation(harness: Harness) {
    harness.operators.stop();
    let cluster = operated(OPERATED_CLUSTER, 1);
    let create = harness.create(&cluster).await;
    harness.applied(create).await;
    let head = harness.nodes(cluster.id).await.swap_remove(0);
    let restart = restart(&harness, &cluster, head.id).await;
    harness.operators.resume();
    assert_eq!(harness.ended(create).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.ended(restart).await.status, ActionStatus::Succeeded);
}

#[database_test(open)]
async fn a_restart_records_the_head_that_it_replaces(harness: Harness) {
    let cluster = created(&harness, 1).await;
    let head = harness.nodes(cluster.id).await.swap_remove(0);
    let restart = restarted(&harness, &cluster, head.id).await;
    let replaced = ReplacedHead::of(&restart).expect("a record");
    assert_eq!((Some(replaced.uid), &replaced.name), (head.member_uid(), &head.name));
    let next = harness.nodes(cluster.id).await.swap_remove(0);
    assert_eq!(next.id, head.id);
    assert_ne!(next.member_uid(), head.member_uid());
}
