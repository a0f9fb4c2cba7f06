//! Only callers who may run code as the server's user may change the code that local processes run.

use muster_core::change::{Change, ClusterUpdate, NodeChange, NodeUpdate};
use muster_core::cluster::Cluster;
use muster_core::ids::{NodeId, ProfileId};
use muster_core::node::Node;
use muster_core::principal::Door;
use muster_core::sample;
use muster_core::time::Timestamp;
use muster_service::ServiceError;
use rstest::rstest;
use uuid::Uuid;

use crate::harness::{Harness, caller};

const REFUSED: &str = "LocalProcessesNeedAdmin";

fn code<T: std::fmt::Debug>(result: Result<T, ServiceError>) -> Option<String> {
    result.expect_err("refused").code.map(std::borrow::Cow::into_owned)
}

fn profile() -> ProfileId {
    ProfileId::from_uuid(Uuid::from_u128(7))
}

fn head() -> ClusterUpdate {
    let head = NodeChange { image: Some(Some("x".to_owned())), ..NodeChange::default() };
    ClusterUpdate { head: Some(head), ..ClusterUpdate::default() }
}

#[rstest]
#[case::head(head(), true)]
#[case::profile(ClusterUpdate { profile_id: Some(profile()), ..ClusterUpdate::default() }, true)]
#[case::name(ClusterUpdate { name: Some("x".to_owned()), ..ClusterUpdate::default() }, false)]
#[tokio::test]
async fn a_member_does_not_change_the_recipe_of_a_local_cluster(
    #[case] update: ClusterUpdate,
    #[case] refused: bool,
) {
    let harness = Harness::open().await;
    let instance = "local:here".parse().expect("an instance");
    let cluster = Cluster { instance, ..sample::cluster(1, 0, None) };
    for door in [Door::Core, Door::Clustering, Door::Webhook] {
        let change = Change::UpdateCluster(Box::new(update.clone()));
        let changed = harness.service.change_cluster(&caller(door), &cluster, change).await;
        assert_eq!(code(changed).as_deref() == Some(REFUSED), refused, "{door}");
    }
}

#[tokio::test]
async fn a_member_does_not_change_the_profile_of_a_local_node() {
    let harness = Harness::open().await;
    let (id, instance) = (NodeId::from_uuid(Uuid::from_u128(8)), "local:here".parse().expect("an instance"));
    let node = Node::new(id, "demo", instance, profile(), Timestamp::from_micros(1));
    let update = NodeUpdate { profile_id: Some(profile()), ..NodeUpdate::default() };
    let caller = caller(Door::Clustering);
    let changed = harness.service.change_node(&caller, &node, Change::UpdateNode(update)).await;
    assert_eq!(code(changed).as_deref(), Some(REFUSED));
}
