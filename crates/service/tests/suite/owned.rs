//! Changes of clusters by their owners.

use muster_core::action::{ActionStatus, Milestone};
use muster_core::principal::{Door, Role};
use muster_core::time::TimeSpan;
use muster_service::owned::OwnerChange;
use muster_service::{ErrorKind, MilestoneWait, Mutation};
use muster_store::reads::ActionQuery;

use crate::harness::{Harness, caller, changing};

#[tokio::test]
async fn a_change_of_a_cluster_that_no_server_serves_is_refused_and_not_made_later() {
    let mut harness = Harness::open().await;
    let cluster = harness.cluster_of("fred", 1).await;
    harness.restart_without_provider().await;
    let service = &harness.service;
    let wait = MilestoneWait { milestone: Milestone::Applied, at_most: TimeSpan::from_millis(100) };
    let mutation = Mutation { access: changing("demo", Role::Member), caller: caller(Door::Core), wait };

    let larger = OwnerChange { size: Some(3), ..OwnerChange::default() };
    let scaled =
        service.change_owned(&mutation, &cluster, larger).await.expect_err("no server makes the change");
    assert_eq!(scaled.kind, ErrorKind::Unavailable, "{scaled:?}");
    assert!(scaled.message.contains("no running server serves"), "{}", scaled.message);
    let query = ActionQuery { cluster: Some(cluster.id), ..ActionQuery::default() };
    let actions = harness.service.engine().store().actions(&query).await.expect("a list").items;
    let open: Vec<_> = actions.iter().filter(|action| !action.status.is_final()).collect();
    assert!(open.is_empty(), "{open:?}");
    let cancelled = actions.iter().filter(|action| action.status == ActionStatus::Cancelled).count();
    assert_eq!(cancelled, 1, "{actions:?}");
}
