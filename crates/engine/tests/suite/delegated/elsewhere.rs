//! Others have the same rights: what they change, delete and lose is seen, told, and never undone.

use muster_core::action::{ActionKind, ActionStatus, Cause};
use muster_core::cluster::ClusterStatus;
use muster_store::reads::ActionQuery;
use muster_testkit::operator::Verb;
use rstest::rstest;

use super::{created, names, open, told, until, workers};
use crate::fixture::{Kind, exactly};

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_size_changed_elsewhere_is_mirrored_and_told_and_never_written_back(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 3).await;
    world.operators.edit(cluster.id, |group| group.desired = 5);
    until(&world, cluster.id, "five", |row, nodes| row.desired() == 5 && nodes.len() == 6).await;
    world.operators.edit(cluster.id, |group| group.desired = 1);
    until(&world, cluster.id, "one", |row, nodes| row.desired() == 1 && nodes.len() == 2).await;
    assert_eq!(names(&world, cluster.id).await, world.operators.workers(cluster.id));
    let mut words: Vec<_> =
        told(&world, cluster.id, "ChangedElsewhere").await.into_iter().map(|event| event.message).collect();
    words.sort_unstable();
    let expected =
        ["group 'default' shall have 1 workers, not 5", "group 'default' shall have 5 workers, not 3"];
    assert_eq!(words, expected);
    assert_eq!(world.operators.deeds().len(), 1, "something was written");
    let row = world.cluster(cluster.id).await;
    assert_eq!(row.status, ClusterStatus::Active);
    assert!(row.status_reason.ends_with("equal or above desired_capacity (1)."), "{}", row.status_reason);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_change_before_our_write_is_taken_into_account(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 3).await;
    world.operators.hold(Verb::Update);
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(5)).await;
    world.operators.begun(Verb::Update, 1).await;
    world.operators.edit(cluster.id, |group| group.desired = 4);
    world.operators.release();
    assert_eq!(world.ended(resize).await.status, ActionStatus::Succeeded);
    assert_eq!(world.operators.group(cluster.id).unwrap().desired, 5);
    assert_eq!(told(&world, cluster.id, "ChangedElsewhere").await.len(), 1);
    assert_eq!(names(&world, cluster.id).await, world.operators.workers(cluster.id));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_change_after_our_write_ends_the_action_and_stays(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 3).await;
    world.operators.stop();
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(5)).await;
    world.applied(resize).await;
    world.operators.edit(cluster.id, |group| group.desired = 2);
    let resize = world.ended(resize).await;
    assert_eq!(resize.status, ActionStatus::Failed);
    let words = "changed elsewhere: group 'default' shall now have 2 workers between 0 and any number";
    assert_eq!(resize.status_reason, words);
    assert_eq!(world.cluster(cluster.id).await.desired(), 2);
    world.operators.go_on();
    until(&world, cluster.id, "two", |_, nodes| nodes.len() == 3).await;
    assert_eq!(world.operators.count(Verb::Update), 1, "it was fought");
    assert_eq!(told(&world, cluster.id, "ChangedElsewhere").await.len(), 1);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_cluster_deleted_elsewhere_becomes_history(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    world.operators.remove(cluster.id);
    world.until_status(cluster.id, ClusterStatus::Deleted).await;
    let row = world.cluster(cluster.id).await;
    assert_eq!((row.deleted_at.is_some(), row.status_reason.as_str()), (true, "it was deleted elsewhere"));
    assert_eq!(world.nodes(cluster.id).await, []);
    assert_eq!(told(&world, cluster.id, "DeletedElsewhere").await.len(), 1);
    let history = ActionQuery { cluster: Some(cluster.id), ..ActionQuery::default() };
    assert_eq!(world.store().actions(&history).await.unwrap().items.len(), 1);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_cluster_deleted_elsewhere_in_the_middle_of_a_resize_is_not_made_again(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    world.operators.stop();
    let resize = world.submit(ActionKind::ClusterResize, &cluster, exactly(4)).await;
    world.applied(resize).await;
    world.operators.remove(cluster.id);
    let resize = world.ended(resize).await;
    assert_eq!(
        (resize.status, resize.status_reason.as_str()),
        (ActionStatus::Failed, "the cluster was deleted elsewhere")
    );
    world.until_status(cluster.id, ClusterStatus::Deleted).await;
    assert_eq!((world.operators.objects(), world.operators.count(Verb::Create)), (0, 1));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_lost_worker_is_told_and_left_to_its_operator(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    let lost = workers(world.nodes(cluster.id).await).remove(0);
    world.operators.lose(cluster.id, &lost.name);
    until(&world, cluster.id, "replaced", |_, nodes| {
        nodes.len() == 3 && nodes.iter().all(|node| node.id != lost.id)
    })
    .await;
    let told = told(&world, cluster.id, "NodeLost").await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].object_id, lost.id.to_string());
    assert_eq!(names(&world, cluster.id).await, world.operators.workers(cluster.id));
    let query = ActionQuery { cluster: Some(cluster.id), ..ActionQuery::default() };
    let actions = world.store().actions(&query).await.unwrap().items;
    assert!(actions.iter().all(|action| action.cause != Cause::Healing));
    assert_eq!(world.operators.deeds().len(), 1);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_worker_that_does_not_come_up_says_why_in_the_clusters_words(#[case] kind: Kind) {
    let Some(world) = open(kind).await else { return };
    let cluster = created(&world, 2).await;
    let name = world.operators.workers(cluster.id).remove(0);
    world.operators.with_member(cluster.id, &name, |member| {
        member.seen = muster_core::node::Seen::Starting { physical_id: None };
        member.reason = "unschedulable: 0/3 nodes have 8 cpus".to_owned();
    });
    world.until_status(cluster.id, ClusterStatus::Warning).await;
    let words = world.cluster(cluster.id).await.status_reason;
    assert!(words.contains(&format!("{name}: unschedulable: 0/3 nodes have 8 cpus")), "{words}");
}
