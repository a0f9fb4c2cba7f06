//! An engine that is asked to end hands over what it has begun.

use muster_testkit::world::{Control, Outcome, Verb, WORLD_CLUSTER};
use rstest::rstest;

use crate::facts::{self, Expected};
use crate::ground::{Ground, Kind, UNHURRIED, created, grow, new_cluster, succeeded};

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_resize_is_finished_by_the_next_engine(#[case] kind: Kind) {
    let Some(ground) = Ground::open(kind).await else { return };
    let engine = ground.engine_at(UNHURRIED).await;
    let cluster = created(&engine, 1).await;
    ground.world.tell(Control::Hold(Verb::Start, 1)).await;
    let resize = grow(&engine, cluster, 3).await;
    ground.world.until(Verb::Start, Outcome::Held, 2).await;
    assert!(engine.stop().await.success());
    ground.world.tell(Control::Release).await;
    let next = ground.engine_at(UNHURRIED).await;
    succeeded(&next.end(resize).await);
    facts::agree(&ground, cluster, Expected { workers: Some(4), made: 5, again: 0 }).await;
    assert!(next.stop().await.success());
    facts::no_locks(&ground).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_creation_is_finished_by_the_next_engine_with_the_nodes_it_has(#[case] kind: Kind) {
    let Some(ground) = Ground::open(kind).await else { return };
    let engine = ground.engine_at(UNHURRIED).await;
    let cluster = new_cluster();
    ground.world.tell(Control::Hold(Verb::Start, 2)).await;
    let create = engine.create(cluster, WORLD_CLUSTER, 3).await.id;
    ground.world.until(Verb::Start, Outcome::Held, 2).await;
    assert!(engine.stop().await.success());
    ground.world.tell(Control::Drop).await;
    let next = ground.engine_at(UNHURRIED).await;
    succeeded(&next.end(create).await);
    facts::agree(&ground, cluster, Expected { workers: Some(3), made: 4, again: 0 }).await;
    assert!(next.stop().await.success());
    facts::no_locks(&ground).await;
}
