//! Following changes by the order of commits.

use std::time::Duration;

use muster_core::cluster::Cluster;
use muster_store::Store;
use muster_store::commands::Purge;
use muster_store::reads::{Changed, ChangesQuery, Position};
use muster_testkit::database_test;

use crate::harness::{self, Harness};
use crate::lists::deleted;

/// A time limit that only a hang reaches.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn everything(after: Position, limit: u32) -> ChangesQuery<'static> {
    ChangesQuery { after, project: None, namespace: None, limit }
}

/// Follows changes in batches until they are enough; PostgreSQL shows a change only once no transaction with a lower
/// number is open.
pub(crate) async fn follow(
    store: &Store,
    mut from: Position,
    limit: u32,
    enough: impl Fn(&[Changed]) -> bool,
) -> (Vec<Changed>, Position) {
    let mut seen = Vec::new();
    let following = async {
        while !enough(&seen) {
            let changes = store.clusters_changed(everything(from, limit)).await.expect("the store answers");
            assert!(changes.clusters.len() <= usize::try_from(limit).expect("a small limit"));
            seen.extend(changes.clusters);
            from = changes.position;
        }
    };
    tokio::time::timeout(PATIENCE, following).await.expect("a change was missed");
    (seen, from)
}

pub(crate) async fn newest(store: &Store) -> Position {
    Position::at(store.change_bounds().await.expect("the store answers").newest)
}

pub(crate) fn names(changed: &[Changed]) -> Vec<&str> {
    changed.iter().map(|changed| changed.cluster.name.as_str()).collect()
}

#[database_test]
async fn a_follower_gets_each_change_and_the_deletion_too(harness: Harness) {
    let start = newest(&harness.store).await;
    harness.create(1).await;
    harness.create(2).await;
    let (changed, upto) = follow(&harness.store, start, 10, |changed| changed.len() == 2).await;
    assert_eq!(names(&changed), ["c1", "c2"]);
    assert!(
        changed.iter().all(|changed| changed.born > start.known_until && changed.born <= upto.known_until)
    );
    assert_eq!(harness.store.clusters_changed(everything(upto, 10)).await.unwrap().clusters, []);
    deleted(&harness, 1).await;
    let is_gone = |cluster: &Cluster| cluster.name == "c1" && cluster.deleted_at.is_some();
    let gone = |changed: &[Changed]| changed.iter().any(|changed| is_gone(&changed.cluster));
    let (changed, _) = follow(&harness.store, upto, 10, gone).await;
    assert!(changed.iter().all(|changed| changed.born <= upto.known_until), "it seems to be new");
}

#[database_test]
async fn changes_come_in_batches_and_continue_after_any_of_them(harness: Harness) {
    let start = newest(&harness.store).await;
    for number in 1..=5 {
        harness.create(number).await;
    }
    let (seen, _) = follow(&harness.store, start, 2, |changed| changed.len() == 5).await;
    assert_eq!(names(&seen), ["c1", "c2", "c3", "c4", "c5"]);
    for (place, changed) in seen.iter().enumerate() {
        let rest = harness.store.clusters_changed(everything(changed.position, 10)).await.unwrap();
        assert_eq!(names(&rest.clusters), names(&seen)[place + 1..], "behind {}", changed.cluster.name);
    }
}

#[database_test]
async fn only_changes_of_a_project_or_namespace_are_delivered(harness: Harness) {
    let start = newest(&harness.store).await;
    harness.create(1).await;
    follow(&harness.store, start, 10, |changed| changed.len() == 1).await;
    let found = async |project, namespace| {
        let query = ChangesQuery { project, namespace, ..everything(start, 10) };
        harness.store.clusters_changed(query).await.unwrap().clusters.len()
    };
    let Cluster { project, namespace, .. } = harness::cluster(1);
    assert_eq!(found(Some(&*project), Some(&*namespace)).await, 1);
    assert_eq!(found(Some("other"), None).await, 0);
    assert_eq!(found(None, Some("other")).await, 0);
}

#[database_test]
async fn changes_reach_back_to_what_was_purged(harness: Harness) {
    let purge = || {
        let before = harness::now(1_000_000);
        harness.store.purge(Purge { history_before: before, requests_before: before, limit: 100 })
    };
    harness.create(1).await;
    purge().await.unwrap();
    assert_eq!(harness.store.change_bounds().await.unwrap().oldest, 0, "nothing is forgotten");
    let start = newest(&harness.store).await;
    deleted(&harness, 1).await;
    let is_gone = |changed: &[Changed]| changed.iter().any(|changed| changed.cluster.deleted_at.is_some());
    let (_, upto) = follow(&harness.store, start, 10, is_gone).await;
    purge().await.unwrap();
    let oldest = harness.store.change_bounds().await.unwrap().oldest;
    assert!(start.change < oldest && oldest <= upto.change, "{} {oldest} {}", start.change, upto.change);
}
