//! Nodes without a row are removed, and no others.

use muster_core::ids::NodeId;
use muster_core::time::TimeSpan;
use muster_engine::Config;
use muster_testkit::{database_test, eventually};
use uuid::Uuid;

use crate::harness::{self, Kind, setup};

#[database_test]
async fn a_node_without_a_row_is_removed_in_time(kind: Kind) {
    let config = Config {
        leftover_period: TimeSpan::from_millis(20),
        leftover_grace: TimeSpan::from_millis(100),
        ..Config::default()
    };
    let Some(harness) = setup().config(config).open(kind).await else { return };
    let (cluster, _) = harness.created(2).await;
    let own = harness.provider.running();
    let leftover = NodeId::from_uuid(Uuid::now_v7());
    harness.provider.start_leftover(leftover);
    eventually("the leftover is gone", harness::PATIENCE, async || {
        let running = harness.provider.running();
        if running.contains(&leftover) { Err(format!("{running:?}")) } else { Ok(()) }
    })
    .await;
    assert_eq!(harness.provider.running(), own, "nodes with a row stay");
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn a_node_without_a_row_is_left_alone_for_a_while(kind: Kind) {
    let config = Config { leftover_period: TimeSpan::from_millis(1), ..Config::default() };
    let Some(harness) = setup().config(config).open(kind).await else { return };
    let leftover = NodeId::from_uuid(Uuid::now_v7());
    harness.provider.start_leftover(leftover);
    // These actions take many rounds of the search for leftover nodes.
    let (cluster, _) = harness.created(2).await;
    harness.resized(&cluster, 5).await;
    assert!(harness.provider.running().contains(&leftover));
}
