//! Callers that go away in the middle.

use rstest::rstest;

use crate::fixture::{self, Fixture, Kind};

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_read_that_is_dropped_half_way_leaves_its_connection_as_it_was(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    world.create(1).await;
    let id = fixture::cluster(1).id;
    // Dropped at every point at which it may be waiting; a write on the same connection shows what it left.
    for polls in 0..150 {
        let mut read = Box::pin(world.store.cluster(id));
        for _ in 0..polls {
            if futures::poll!(read.as_mut()).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(read);
        world.create(2 + polls).await;
    }
}
