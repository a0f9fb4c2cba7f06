//! Callers that are cancelled during a read or a write.

use std::time::Duration;

use muster_store::Touched;
use muster_testkit::database_test;

use crate::harness::{self, Harness, Kind, creation};

/// A time limit that only a hang reaches.
const PATIENCE: Duration = Duration::from_secs(10);

#[database_test]
async fn a_read_that_is_dropped_half_way_leaves_its_connection_as_it_was(kind: Kind) {
    let Some(harness) = Harness::open(kind).await else { return };
    harness.create(1).await;
    let id = harness::cluster(1).id;
    // Drop the read at every point at which it may wait; a write on the same connection then shows if it is usable.
    let mut dropped_half_way = 0;
    for polls in 0..150 {
        let mut read = Box::pin(harness.store.cluster(id));
        let mut ended = false;
        for _ in 0..polls {
            ended = futures::poll!(read.as_mut()).is_ready();
            if ended {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(read);
        dropped_half_way += u32::from(polls > 0 && !ended);
        harness.create(2 + polls).await;
    }
    match kind {
        Kind::Sqlite => assert_eq!(dropped_half_way, 0, "a read of a file ends at its first poll"),
        Kind::Postgres => assert!(dropped_half_way > 0, "every read had ended when it was dropped"),
    }
}

#[database_test]
async fn a_write_whose_caller_goes_away_is_made_and_announced(harness: Harness) {
    for polls in 1..60 {
        let mut commits = harness.store.subscribe();
        let mut write = Box::pin(harness.store.accept(creation(polls)));
        for _ in 0..polls {
            if futures::poll!(write.as_mut()).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(write);
        let announced = async {
            while commits.recv().await.expect("commits continue")
                != Touched::Cluster(harness::cluster(polls).id)
            {}
        };
        let announced = tokio::time::timeout(PATIENCE, announced).await;
        assert!(announced.is_ok(), "dropped after {polls} polls");
    }
}
