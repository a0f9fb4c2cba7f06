//! An engine that is asked to stop releases its running actions for other engines.

use muster_testkit::database_test;
use muster_testkit::world::{Control, Outcome, Verb, WORLD_CLUSTER};

use crate::facts::{self, Expected};
use crate::harness::{Harness, UNHURRIED, created, grow, new_cluster, succeeded};

#[database_test]
async fn a_resize_is_finished_by_the_next_engine(harness: Harness) {
    let engine = harness.engine_at(UNHURRIED).await;
    let cluster = created(&engine, 1).await;
    harness.world.control(Control::Hold(Verb::Start, 1)).await;
    let resize = grow(&engine, cluster, 3).await;
    harness.world.until(Verb::Start, Outcome::Held, 2).await;
    assert!(engine.stop().await.success());
    harness.world.control(Control::Release).await;
    let next = harness.engine_at(UNHURRIED).await;
    succeeded(&next.end(resize).await);
    facts::agree(&harness, cluster, Expected { workers: Some(4), made: 5, again: 0 }).await;
    assert!(next.stop().await.success());
    facts::no_locks(&harness).await;
}

#[database_test]
async fn a_creation_is_finished_by_the_next_engine_with_the_nodes_it_has(harness: Harness) {
    let engine = harness.engine_at(UNHURRIED).await;
    let cluster = new_cluster();
    harness.world.control(Control::Hold(Verb::Start, 2)).await;
    let create = engine.create(cluster, WORLD_CLUSTER, 3).await.id;
    harness.world.until(Verb::Start, Outcome::Held, 2).await;
    assert!(engine.stop().await.success());
    harness.world.control(Control::Drop).await;
    let next = harness.engine_at(UNHURRIED).await;
    succeeded(&next.end(create).await);
    facts::agree(&harness, cluster, Expected { workers: Some(3), made: 4, again: 0 }).await;
    assert!(next.stop().await.success());
    facts::no_locks(&harness).await;
}
