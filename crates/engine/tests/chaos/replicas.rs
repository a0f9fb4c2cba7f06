//! Several engines on one database.

use std::collections::HashMap;

use futures::future::join_all;
use muster_testkit::world::{Outcome, Verb, WORLD_NODE};

use crate::facts::{self, Expected};
use crate::harness::{Harness, Kind, UNHURRIED, new_cluster, succeeded};

#[tokio::test]
async fn two_engines_execute_each_of_many_actions_once() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let engines = [harness.engine_at(UNHURRIED).await, harness.engine_at(UNHURRIED).await];
    let clusters: Vec<_> = (0..40).map(|_| new_cluster()).collect();
    let asked = clusters.iter().enumerate().map(async |(place, cluster)| {
        let engine = &engines[place % 2];
        let action = engine.create(*cluster, WORLD_NODE, 2).await;
        // Waits at the other engine, to test that it is notified of the commits of the first one.
        engines[(place + 1) % 2].end(action.id).await
    });
    let mut owners = HashMap::new();
    for action in join_all(asked).await {
        succeeded(&action);
        *owners.entry(action.owner).or_insert(0) += 1;
    }
    for cluster in &clusters {
        facts::agree(&harness, *cluster, Expected { workers: Some(2), made: 2, again: 0 }).await;
    }
    let calls = [(Verb::Create, Outcome::Done), (Verb::Start, Outcome::Made), (Verb::Start, Outcome::There)];
    let counts = calls.map(|(verb, outcome)| harness.world.count(verb, outcome));
    assert_eq!(counts, [40, 80, 0], "by owner: {owners:?}");
    for engine in engines {
        assert!(engine.stop().await.success());
    }
    facts::no_locks(&harness).await;
}
