//! Parts of an action: left out on request, and otherwise as their parent is.

use muster_core::action::{Action, ActionKind, ActionStatus, OnConflict, Target};
use muster_core::ids::{ActionId, ClusterId};
use muster_core::node::{Node, NodeStatus};
use muster_core::time::Span;
use muster_engine::Change;
use muster_store::commands::SignalKind;
use muster_testkit::ManualClock;
use muster_testkit::fake::Verb;
use rstest::rstest;

use crate::fixture::{self, Fixture, Kind, caller, exactly};

async fn node_of(world: &Fixture, cluster: ClusterId, child: &Action) -> Node {
    let nodes = world.nodes(cluster).await;
    nodes.into_iter().find(|node| Target::Node(node.id) == child.target).expect("its node is there")
}

async fn statuses(world: &Fixture, parent: ActionId) -> Vec<ActionStatus> {
    world.children(parent).await.iter().map(|child| child.status).collect()
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn cancelling_a_part_leaves_its_node_out_and_the_rest_goes_on(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Start);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    world.world.begun(Verb::Start, 3).await;
    let [cancelled, other] = &world.children(resize).await[..] else { panic!("two nodes are added") };
    world.engine.signal(cancelled.id, SignalKind::Cancel).await.unwrap();
    world.until(cancelled.id, ActionStatus::Cancelled).await;
    world.world.begun(Verb::Start, 4).await;
    assert_eq!(node_of(&world, cluster.id, other).await.starts.len(), 1, "a start that was cut counts");
    world.world.release();
    let resize = world.ended(resize).await;
    assert_eq!(resize.status, ActionStatus::Failed);
    let node = node_of(&world, cluster.id, cancelled).await;
    assert_eq!(resize.status_reason, format!("{}: its action {} was cancelled", node.name, cancelled.id));
    assert_eq!(node.status, NodeStatus::Error);
    assert_eq!(world.action(other.id).await.status, ActionStatus::Succeeded);
    assert_eq!(world.world.running().len(), 2);
    assert_eq!(world.resized(&cluster, 3).await.status, ActionStatus::Succeeded);
    world.assert_agreement(cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_node_that_was_left_out_stays_so_when_another_engine_goes_on(#[case] kind: Kind) {
    let Some(mut world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Start);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    world.applied(resize).await;
    let cancelled = world.children(resize).await.remove(0);
    world.engine.signal(cancelled.id, SignalKind::Cancel).await.unwrap();
    world.until(cancelled.id, ActionStatus::Cancelled).await;
    world.engine.stop().await;
    world.world.release();
    world.engine = fixture::engine(world.store().clone(), &world.world).await;
    let resize = world.ended(resize).await;
    assert!(resize.status_reason.contains(&cancelled.id.to_string()), "{}", resize.status_reason);
    assert_eq!(world.world.running().len(), 2);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn parts_are_suspended_resumed_and_cancelled_with_their_parent(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Start);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    world.applied(resize).await;
    world.engine.signal(resize, SignalKind::Suspend).await.unwrap();
    world.until(resize, ActionStatus::Suspended).await;
    assert_eq!(statuses(&world, resize).await, [ActionStatus::Suspended; 2]);
    let begun = world.world.count(Verb::Start);
    world.engine.signal(resize, SignalKind::Resume).await.unwrap();
    world.world.begun(Verb::Start, begun + 2).await;
    assert_eq!(statuses(&world, resize).await, [ActionStatus::Running; 2]);
    world.engine.signal(resize, SignalKind::Cancel).await.unwrap();
    world.ended(resize).await;
    assert_eq!(statuses(&world, resize).await, [ActionStatus::Cancelled; 2]);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn parts_end_with_a_parent_that_took_too_long(#[case] kind: Kind) {
    let clock = ManualClock::default();
    let Some(world) = Fixture::open_by(kind, &clock).await else { return };
    let (cluster, _) = world.created(1).await;
    world.world.hold(Verb::Start);
    let change = Change {
        kind: ActionKind::ClusterResize,
        cluster: cluster.clone(),
        node: None,
        inputs: exactly(3),
        on_conflict: OnConflict::Queue,
        timeout: Some(Span::from_secs(1)),
    };
    let resize = world.engine.submit(change, caller()).await.unwrap().action.id;
    world.world.begun(Verb::Start, 3).await;
    assert_eq!(statuses(&world, resize).await, [ActionStatus::Running; 2]);
    clock.advance(Span::from_secs(1));
    assert_eq!(world.ended(resize).await.status, ActionStatus::Failed);
    assert_eq!(statuses(&world, resize).await, [ActionStatus::Failed; 2]);
}
