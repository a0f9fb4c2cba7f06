//! The name of a cluster is free once the cluster is deleted, and a create waits for that.

use std::sync::Arc;
use std::time::Duration;

use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, ProfileId};
use muster_core::principal::{Door, Role};
use muster_core::profile::Profile;
use muster_core::sample;
use muster_core::time::TimeSpan;
use muster_engine::Config;
use muster_engine::ports::provider::{ALREADY_EXISTS, ProviderError};
use muster_service::{ErrorKind, Mutation, Recipe, ServiceError};
use muster_testkit::fake::Verb;
use muster_testkit::operator::{self, OPERATED_CLUSTER, Operated, OperatorWorld};
use rstest::rstest;
use uuid::Uuid;

use crate::harness::{Harness, REACHED, caller, changing};

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

#[tokio::test]
async fn a_create_whose_object_exists_already_is_refused_and_leaves_the_name_free() {
    let harness = Harness::with(Config::default(), |_| {
        let operators = Arc::new(OperatorWorld::default());
        let taken = ProviderError::permanent(ALREADY_EXISTS, "RayCluster 'demo/fred' already exists");
        operators.fail_next(operator::Verb::Create, taken);
        Arc::new(Operated::new(&operators))
    })
    .await;
    let service = &harness.service;
    let mutation =
        Mutation { access: changing("demo", Role::Member), caller: caller(Door::Core), wait: REACHED };
    let create = async || {
        let kind = OPERATED_CLUSTER.parse().expect("a profile type");
        let profile = Profile { id: ProfileId::from_uuid(Uuid::now_v7()), kind, ..sample::profile() };
        let cluster = Cluster {
            id: ClusterId::from_uuid(Uuid::now_v7()),
            name: "fred".to_owned(),
            instance: Operated::instance_id(),
            profile_id: profile.id,
            profile_type: profile.kind.clone(),
            ..sample::cluster(0, 0, None)
        };
        let submit = Box::pin(service.create_cluster(&mutation.caller, cluster, Recipe::New(profile), true));
        service.mutate::<ServiceError>(&mutation, submit).await
    };
    let refused = create().await.expect_err("the object exists");
    assert_eq!((refused.kind, refused.code.as_deref()), (ErrorKind::Exists, Some("ClusterNameTaken")));
    let (created, _) = create().await.expect("the name is free");
    assert_eq!(created.name, "fred");
}
