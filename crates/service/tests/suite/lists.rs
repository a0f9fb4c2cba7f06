//! Lists contain what the caller may see.

use muster_core::principal::Role;
use muster_service::lists::{
    Authorized, ClusterQuery, ClusterSort, Direction, LONGEST_PAGE, NodeQuery, PageRequest,
};
use muster_service::{Access, Denied};

use crate::harness::{Harness, changing};

fn by_name() -> ClusterQuery {
    ClusterQuery { sort: vec![(ClusterSort::Name, Direction::Ascending)], ..ClusterQuery::default() }
}

#[tokio::test]
async fn a_list_contains_the_callers_project_and_for_admins_every_project() {
    let harness = Harness::open().await;
    harness.cluster("fred").await;
    let names = async |access: &Access| {
        // The project that a query names does not widen it.
        let query = ClusterQuery { project: Some("demo".to_owned()), ..by_name() };
        let clusters = harness.service.list(&access.visible(query)).await.expect("listed");
        clusters.into_iter().map(|cluster| cluster.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&changing("demo", Role::Member)).await, ["fred"]);
    assert_eq!(names(&changing("other", Role::Member)).await, Vec::<String>::new());
    assert_eq!(names(&changing("ops", Role::Admin)).await, ["fred"]);
}

#[tokio::test]
async fn only_admins_list_all_projects() {
    let harness = Harness::open().await;
    harness.cluster("fred").await;
    let count = async |access: Access, all_projects| -> Result<usize, Denied> {
        let query = access.in_project(by_name(), all_projects)?;
        Ok(harness.service.list(&query).await.expect("listed").len())
    };
    assert_eq!(count(changing("ops", Role::Admin), false).await, Ok(0));
    assert_eq!(count(changing("ops", Role::Admin), true).await, Ok(1));
    let refused = count(changing("demo", Role::Member), true).await;
    assert!(matches!(refused, Err(Denied::Forbidden(_))), "{refused:?}");
}

#[tokio::test]
async fn a_page_token_is_refused_for_another_caller_or_order() {
    let harness = Harness::open().await;
    for name in ["ann", "bob", "fred"] {
        harness.cluster(name).await;
    }
    let page = async |access: &Access, token: &str, sort_by: &str| {
        let request = PageRequest { limit: Some(2), token, sort_by };
        let page = harness.service.list_page(&access.visible(by_name()), request).await?;
        let names = page.items.into_iter().map(|cluster| cluster.name).collect::<Vec<_>>();
        Ok::<_, muster_service::ServiceError>((names, page.next_token))
    };
    let member = changing("demo", Role::Member);
    let (first, token) = page(&member, "", "name").await.expect("the first page");
    assert_eq!(first, ["ann", "bob"]);
    assert_eq!(page(&member, &token, "name").await, Ok((vec!["fred".to_owned()], String::new())));
    assert!(page(&member, &token, "-name").await.is_err());
    assert!(page(&changing("other", Role::Member), &token, "name").await.is_err());
}

#[tokio::test]
async fn no_page_is_longer_than_the_longest_and_the_rest_follows() {
    let harness = Harness::open().await;
    let cluster = harness.cluster_of("large", LONGEST_PAGE + 1).await;
    let page = async |limit: Option<u32>, token: &str| {
        let query = Authorized::of_cluster(&cluster, NodeQuery::default());
        let request = PageRequest { limit, token, sort_by: "" };
        let page = harness.service.list_page(&query, request).await.expect("a page");
        (page.items.len(), page.next_token)
    };
    let (first, token) = page(Some(u32::MAX), "").await;
    assert_eq!(first, 1_000);
    assert_eq!(page(Some(u32::MAX), &token).await, (1, String::new()));
    assert_eq!(page(Some(7), "").await.0, 7);
    assert_eq!(page(None, "").await, (1_001, String::new()), "without a limit, all objects");
    assert_eq!(page(None, &token).await, (1, String::new()), "the rest after a token");
}

#[tokio::test]
async fn a_run_is_as_long_as_asked_for_over_several_pages() {
    let harness = Harness::open().await;
    let cluster = harness.cluster_of("large", LONGEST_PAGE + 2).await;
    let run = async |limit: u64, token: &str| {
        let query = Authorized::of_cluster(&cluster, NodeQuery::default());
        let run = harness.service.list_run(&query, token, limit).await.expect("a run");
        (run.items.len(), run.next_token)
    };
    assert_eq!(run(u64::MAX, "").await, (1_002, String::new()));
    assert_eq!(run(1_002, "").await, (1_002, String::new()));
    let (first, token) = run(1_001, "").await;
    assert_eq!(first, 1_001);
    assert_eq!(run(u64::MAX, &token).await, (1, String::new()));
}
