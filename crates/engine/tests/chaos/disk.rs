//! A disk that is full, and then has space again.

use std::fs;

use muster_testkit::SmallDisk;
use muster_testkit::world::WORLD_NODE;

use crate::facts::{self, Expected};
use crate::harness::{Harness, UNHURRIED, new_cluster, succeeded};

/// More clusters than fit into the space that the database's log has already allocated on a full disk.
const ENOUGH: usize = 200;

#[tokio::test]
async fn a_full_disk_refuses_in_words_and_keeps_what_was_accepted() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let filler = disk.path().join("filler");
    let harness = Harness::on(disk).await;
    let engine = harness.engine_at(UNHURRIED).await;
    let first = new_cluster();
    succeeded(&engine.end(engine.create(first, WORLD_NODE, 1).await.id).await);
    SmallDisk::fill(&filler);
    let (mut accepted, mut refused) = (Vec::new(), None);
    for _ in 0..ENOUGH {
        let cluster = new_cluster();
        match engine.try_create(cluster, WORLD_NODE, 1).await {
            Ok(action) => accepted.push((cluster, action.id)),
            Err(why) => {
                refused = Some((cluster, why));
                break;
            }
        }
    }
    let (half_made, why) = refused.expect("the disk is full");
    assert!(why.starts_with("the database cannot be used now: "), "{why}");
    assert!(why.contains("full"), "{why}");

    fs::remove_file(&filler).unwrap();
    let later = new_cluster();
    accepted.push((later, engine.create(later, WORLD_NODE, 1).await.id));
    for (cluster, action) in accepted {
        succeeded(&engine.end(action).await);
        facts::agree(&harness, cluster, Expected { workers: Some(1), made: 1, again: 0 }).await;
    }
    let store = harness.store().await;
    assert!(store.cluster(half_made).await.unwrap().is_none(), "it was refused, and is there");
    store.close().await;
    assert!(engine.stop().await.success());
    facts::no_locks(&harness).await;
}
