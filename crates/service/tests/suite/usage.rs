//! The amounts that clusters request are recorded with each change, and summed for callers who may see the clusters.

use muster_core::change::{Change, Delete, ResizeGroup};
use muster_core::cluster::Cluster;
use muster_core::principal::{Door, Role};
use muster_core::resize::Resize;
use muster_core::time::Timestamp;
use muster_core::usage::{AmountsRecord, UsageGrouping};
use muster_service::lists::{Authorized, EventQuery};
use muster_service::usage::UsageRequest;

use crate::harness::{Harness, REACHED, caller, changing};

/// The numbers of nodes before and after each recorded change, the oldest first.
async fn recorded(harness: &Harness, cluster: &Cluster) -> Vec<(Option<u64>, u64)> {
    let query = Authorized::of_cluster(cluster, EventQuery::default());
    let mut events = harness.service.list(&query).await.expect("the events");
    events.sort_by_key(|event| (event.at, event.id));
    let records = events.iter().filter_map(|event| AmountsRecord::read(event.at, &event.data));
    records.map(|record| (record.before.map(|before| before.nodes), record.after.nodes)).collect()
}

async fn change(harness: &Harness, cluster: &Cluster, change: Change) {
    let action = harness.service.change_cluster(&caller(Door::Core), cluster, change).await;
    let action = action.expect("it is accepted");
    harness.service.wait_for_end(action, REACHED.at_most).await.expect("it ends");
}

fn resize(to: u32) -> Change {
    Change::Resize(ResizeGroup { group: None, resize: Resize::exactly(to), candidates: None })
}

#[tokio::test]
async fn a_creation_a_resize_and_a_deletion_record_what_is_requested() {
    let harness = Harness::open().await;
    let cluster = harness.cluster_of("fred", 1).await;
    change(&harness, &cluster, resize(3)).await;
    change(&harness, &cluster, resize(3)).await;
    change(&harness, &cluster, Change::DeleteCluster(Delete::default())).await;
    let records = recorded(&harness, &cluster).await;
    assert_eq!(records, [(None, 1), (Some(1), 3), (Some(3), 3)], "nothing changed the second time");
}

#[tokio::test]
async fn usage_is_of_the_callers_project_and_for_admins_of_all() {
    let harness = Harness::open().await;
    let deleted = harness.cluster("fred").await;
    change(&harness, &deleted, Change::DeleteCluster(Delete::default())).await;
    harness.cluster("barney").await;
    let rows = async |project: &str, role: Role, request: UsageRequest, by: UsageGrouping| {
        let report = harness.service.usage(&changing(project, role), request, by).await.expect("a report");
        let rows: Vec<_> = report.rows.iter().map(|(name, usage)| (name.clone(), usage.clusters)).collect();
        assert_eq!(report.total.clusters, rows.iter().map(|(_, clusters)| clusters).sum::<u64>());
        rows
    };
    let all = UsageRequest::default;
    let user = UsageGrouping::User;
    assert_eq!(rows("demo", Role::Reader, all(), user).await, [("Ann".to_owned(), 2)]);
    assert_eq!(rows("ops", Role::Admin, all(), UsageGrouping::Project).await, [("demo".to_owned(), 2)]);
    assert_eq!(rows("other", Role::Member, all(), user).await, []);
    let elsewhere = UsageRequest { namespace: Some("other".to_owned()), ..all() };
    assert_eq!(rows("ops", Role::Admin, elsewhere, user).await, []);
    // The clusters of the fixture were stored at the beginning of 1970.
    let (since, until) = (Timestamp::from_micros(-2_000_000), Timestamp::from_micros(-1_000_000));
    let before = UsageRequest { since: Some(since), until: Some(until), ..all() };
    assert_eq!(rows("demo", Role::Member, before, user).await, [], "there was no cluster then");
}
