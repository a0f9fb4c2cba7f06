//! Requests find and change only what their caller may.

use muster_core::principal::Role;
use muster_service::ErrorKind;
use muster_service::find::{ClusterRef, FindError};

use crate::harness::{Harness, changing};

#[tokio::test]
async fn a_cluster_of_another_project_does_not_exist_and_readers_may_not_change_theirs() {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    let named =
        ClusterRef { namespace: &cluster.namespace, name: "fred", framework: "", provider: "", id: None };
    let by_id = ClusterRef { namespace: "-", name: "-", id: Some(cluster.id), ..named };
    for named in [named, by_id] {
        let find = async |project, role| {
            let found = harness.service.find_cluster(&changing(project, role), &named).await;
            found.map(|found| found.id)
        };
        assert_eq!(find("demo", Role::Member).await, Ok(cluster.id));
        assert_eq!(find("ops", Role::Admin).await, Ok(cluster.id));
        assert_eq!(find("other", Role::Member).await, Err(FindError::Missing));
        match find("demo", Role::Reader).await {
            Err(FindError::Service(error)) => assert_eq!(error.kind, ErrorKind::Forbidden, "{error}"),
            found => panic!("{found:?}"),
        }
    }
}

#[tokio::test]
async fn an_id_with_the_name_of_another_cluster_is_refused() {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    let named = ClusterRef {
        namespace: &cluster.namespace,
        name: "bob",
        framework: "",
        provider: "",
        id: Some(cluster.id),
    };
    let found = harness.service.find_cluster(&changing("demo", Role::Member), &named).await;
    assert!(matches!(found, Err(FindError::OtherCluster(_))), "{found:?}");
}

#[tokio::test]
async fn identifying_by_a_name_sees_the_callers_project_only() {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    let identify = async |project| {
        let access = changing(project, Role::Member);
        harness.service.identify_cluster(&access, "fred").await.map(|found| found.map(|found| found.id))
    };
    assert_eq!(identify("demo").await, Ok(Some(cluster.id)));
    assert_eq!(identify("other").await, Ok(None));
}

#[tokio::test]
async fn a_namespace_is_refused_with_the_namespace_of_the_callers_project_if_it_has_one() {
    let harness = Harness::open().await;
    let refused = |project| {
        let access = changing(project, Role::Member);
        let refused = harness.service.authorize_namespace(&access, "demo").expect_err("refused");
        assert_eq!(refused.kind, ErrorKind::NotFound);
        refused.message
    };
    let other = "namespace 'demo' could not be found: use your namespace 'other'";
    assert_eq!(refused("other"), other);
    assert!(refused("").ends_with("belongs to no project"), "{}", refused(""));
}
