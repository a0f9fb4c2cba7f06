//! The name of a cluster is free once the cluster is deleted, and a create waits for that.

use muster_core::principal::Door;
use muster_service::ErrorKind;
use muster_testkit::fake::Verb;

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
