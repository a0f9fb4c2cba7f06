//! Clusters whose instance no engine serves any more.

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::ids::InstanceId;
use muster_store::commands::Accept;
use muster_store::reads::EventQuery;
use muster_testkit::database_test;

use crate::harness::{self, Harness, caller};

/// Stores a cluster on a machine that no engine serves, with the action that was to create it.
async fn on_a_lost_machine(harness: &Harness) -> (Cluster, Action) {
    let mut cluster = harness::cluster(muster_testkit::fake::FAKE_NODE, 1);
    cluster.instance = InstanceId::new("local", "a machine that burnt");
    let mut action = muster_core::sample::action(1, ActionKind::ClusterCreate, cluster.id);
    action.instance = cluster.instance.clone();
    let new = muster_store::commands::NewCluster {
        cluster: cluster.clone(),
        profile: Some(muster_core::profile::Profile {
            id: cluster.profile_id,
            ..muster_core::sample::profile()
        }),
        unique_name: true,
        quota: None,
        app: None,
        job: None,
    };
    let queue = muster_core::action::OnConflict::Queue;
    let accept = Accept { cluster: Some(new), ..Accept::new(action.clone(), queue) };
    harness.store().accept(accept).await.expect("accepted");
    (cluster, action)
}

#[database_test]
async fn an_unserved_row_can_be_ended_by_force_with_its_waiting_actions(harness: Harness) {
    let (cluster, action) = on_a_lost_machine(&harness).await;
    let ended = harness.engine.abandon(&cluster, &caller()).await.unwrap().expect("no engine serves it");
    assert_eq!(ended.status, ActionStatus::Succeeded);
    assert_eq!(harness.action(action.id).await.status, ActionStatus::Cancelled);
    let row = harness.cluster(cluster.id).await;
    assert_eq!(row.status, ClusterStatus::Deleted);
    let reason = "no engine has ever served 'local:a machine that burnt': remove by hand what still runs \
                  there";
    assert_eq!(row.status_reason, reason);
    let events = harness
        .store()
        .events(&EventQuery { cluster: Some(cluster.id), ..EventQuery::default() })
        .await
        .unwrap();
    assert!(events.items.iter().any(|event| event.reason == "InstanceAbandoned"));
}

#[database_test]
async fn a_row_that_is_served_is_not_abandoned(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    assert_eq!(harness.engine.abandon(&cluster, &caller()).await.unwrap(), None);
    assert_eq!(harness.cluster(cluster.id).await.status, ClusterStatus::Active);
}

#[database_test]
async fn the_row_of_an_abandoned_cluster_says_how_long_nothing_served_it(harness: Harness) {
    let (cluster, _) = on_a_lost_machine(&harness).await;
    let (instance, now) = (&cluster.instance, harness::now().micros());
    let serve = format!("INSERT INTO instances (id, served_at) VALUES ('{instance}', {now})");
    harness.fresh.execute(&serve).await;
    assert_eq!(harness.engine.abandon(&cluster, &caller()).await.unwrap(), None, "its engine may come back");
    let before = now - (25 * 60 + 30) * 1_000_000;
    let serve = format!("UPDATE instances SET served_at = {before} WHERE id = '{instance}'");
    harness.fresh.execute(&serve).await;
    let ended = harness.engine.abandon(&cluster, &caller()).await.unwrap().expect("no engine serves it");
    let reason = "no engine has served 'local:a machine that burnt' for 25 minutes, and after 10 its clusters can be \
                  deleted by force: remove by hand what still runs there";
    assert_eq!(ended.status_reason, reason);
}
