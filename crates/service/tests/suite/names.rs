//! The name of a cluster is free once the cluster is deleted, and a create waits for that.

use std::time::Duration;

use muster_core::principal::Door;
use muster_core::time::TimeSpan;
use muster_service::ErrorKind;
use muster_testkit::fake::Verb;
use rstest::rstest;

use crate::harness::{Harness, caller};

#[tokio::test]
async fn a_create_waits_for_the_deletion_of_the_cluster_that_has_its_name() {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    harness.world.hold(Verb::Delete);
    let service = &harness.service;
    let deletion = service.delete_cluster(&caller(Door::Core), &cluster, false).await.expect("accepted");
    assert!(!deletion.status.is_final());
    let create = harness.create("fred", 0);
    let release = async {
        tokio::task::yield_now().await;
        harness.world.release();
    };
    let (created, ()) = tokio::join!(create, release);
    let (again, _) = created.expect("the name is free");
    assert_ne!(again.id, cluster.id);
}

#[tokio::test]
async fn a_deletion_that_lasts_leaves_the_name_taken() {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    harness.world.hold(Verb::Delete);
    let service = &harness.service;
    service.delete_cluster(&caller(Door::Core), &cluster, false).await.expect("accepted");
    let refused = harness.create("fred", 0).await.expect_err("the name is taken");
    assert_eq!(refused.kind, ErrorKind::Exists);
    harness.world.release();
}

#[tokio::test]
async fn a_name_that_is_not_being_deleted_is_taken_at_once() {
    let harness = Harness::open().await;
    harness.cluster("fred").await;
    let refused = harness.create("fred", 0).await.expect_err("the name is taken");
    assert_eq!((refused.kind, refused.code.as_deref()), (ErrorKind::Exists, Some("ClusterNameTaken")));
}

#[rstest]
#[case(0, 1)]
#[case(1, 0)]
#[tokio::test]
async fn a_create_waits_for_the_deletions_of_all_clusters_that_have_its_name(
    #[case] first: usize,
    #[case] last: usize,
) {
    let harness = Harness::open().await;
    let clusters = [harness.cluster("fred").await, harness.twin("fred").await];
    let (service, world) = (&harness.service, &harness.world);
    world.hold(Verb::Delete);
    let mut deletions = Vec::new();
    for (begun, cluster) in [(1, &clusters[first]), (2, &clusters[last])] {
        let deletion = service.delete_cluster(&caller(Door::Core), cluster, false).await.expect("accepted");
        deletions.push(deletion);
        world.begun(Verb::Delete, begun).await;
    }
    let release = async {
        tokio::task::yield_now().await;
        world.hold_after(Verb::Delete, 1);
        let ended = service.wait_for_end(deletions.swap_remove(0), TimeSpan::from_secs(30)).await;
        ended.expect("the first deletion ends");
        world.release();
    };
    let (created, ()) = tokio::join!(harness.create("fred", 0), release);
    created.expect("the name is free");
}

#[rstest]
#[case(0)]
#[case(1)]
#[tokio::test]
async fn a_name_that_another_cluster_has_too_is_taken_at_once_while_one_is_deleted(#[case] deleted: usize) {
    let harness = Harness::open().await;
    let clusters = [harness.cluster("fred").await, harness.twin("fred").await];
    harness.world.hold(Verb::Delete);
    let service = &harness.service;
    service.delete_cluster(&caller(Door::Core), &clusters[deleted], false).await.expect("accepted");
    let create = tokio::time::timeout(Duration::from_secs(3), harness.create("fred", 0)).await;
    let refused = create.expect("no wait").expect_err("the name is taken");
    assert_eq!(refused.kind, ErrorKind::Exists);
    harness.world.release();
}
