//! Cancel, suspend, resume, time-outs.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::node::NodeRole;
use muster_core::restart::ReplacedHead;
use muster_core::time::TimeSpan;
use muster_engine::ChangeRequest;
use muster_engine::ports::provider::ProviderError;
use muster_store::commands::SignalKind;
use muster_testkit::fake::Verb;
use muster_testkit::{ManualClock, database_test, read_change};
use serde_json::json;

use crate::harness::{Harness, Kind, caller, exactly, setup};
use crate::nodes::changed;

#[database_test]
async fn cancelling_reaches_node_work_that_is_under_way(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    harness.provider.begun(Verb::Start, 2).await;
    harness.engine.signal(resize, SignalKind::Cancel, None).await.unwrap();
    let action = harness.ended(resize).await;
    assert_eq!(
        (action.status, action.status_reason.as_str()),
        (ActionStatus::Cancelled, "Action execution cancelled")
    );
    assert_eq!(harness.cluster(cluster.id).await.status, ClusterStatus::Warning);
    assert_eq!(
        harness.provider.count(Verb::Stop),
        2,
        "nothing is seen of them, but they may be on their way"
    );
    harness.provider.release();
    // The nodes that the cancelled action left are in the rows, so the next action can remove them.
    assert_eq!(harness.resized(&cluster, 1).await.status, ActionStatus::Succeeded);
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn a_suspended_action_keeps_its_lock_and_continues_when_resumed(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    harness.applied(resize).await;
    harness.engine.signal(resize, SignalKind::Suspend, None).await.unwrap();
    harness.until(resize, ActionStatus::Suspended).await;
    harness.provider.release();
    let check = harness.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
    assert_eq!(harness.action(check).await.status, ActionStatus::Ready, "the lock was lost");
    harness.engine.signal(resize, SignalKind::Resume, None).await.unwrap();
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Succeeded);
    harness.ended(check).await;
    harness.assert_agreement(cluster.id).await;
    assert_eq!(harness.provider.running().len(), 3);
}

#[database_test]
async fn a_suspended_action_can_be_cancelled(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    harness.applied(resize).await;
    harness.engine.signal(resize, SignalKind::Suspend, None).await.unwrap();
    harness.until(resize, ActionStatus::Suspended).await;
    harness.engine.signal(resize, SignalKind::Cancel, None).await.unwrap();
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Cancelled);
}

#[database_test]
async fn an_action_that_takes_too_long_fails_with_its_limit(kind: Kind) {
    let clock = ManualClock::default();
    let Some(harness) = setup().clock(&clock).open(kind).await else { return };
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let change = ChangeRequest {
        change: read_change(ActionKind::ClusterResize, &exactly(2)),
        cluster: cluster.clone(),
        node: None,

        on_conflict: muster_core::action::OnConflict::Queue,
        timeout: Some(TimeSpan::from_secs(1)),
    };
    let action = harness.engine.submit(change, caller()).await.unwrap().action.id;
    harness.provider.begun(Verb::Start, 2).await;
    clock.advance(TimeSpan::from_secs(1));
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert_eq!(action.status_reason, "TIMEOUT: it did not end within 1 seconds");
}

#[database_test]
async fn ended_actions_accept_no_signals(harness: Harness) {
    let (_, action) = harness.created(1).await;
    let error = harness.engine.signal(action.id, SignalKind::Cancel, None).await.unwrap_err();
    assert!(error.to_string().contains("it has ended"), "{error}");
}

#[database_test]
async fn a_change_that_was_not_applied_leaves_the_cluster_as_it_was(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let before = harness.cluster(cluster.id).await;
    let nodes = harness.nodes(cluster.id).await;
    let worker = nodes.iter().find(|node| node.role == NodeRole::Worker).expect("a worker").id;
    let changes = [
        (ActionKind::ClusterResize, exactly(5)),
        (ActionKind::ClusterScaleIn, json!({"count": 1})),
        (ActionKind::ClusterDelNodes, json!({"nodes": [worker], "destroy_after_deletion": true})),
    ];
    for (kind, inputs) in changes {
        fail_observations(&harness);
        let action = harness.submit(kind, &cluster, inputs).await;
        let action = harness.ended(action).await;
        assert_eq!((action.status, action.applied_at), (ActionStatus::Failed, None), "{kind}");
        assert_unchanged(&harness, &before, kind).await;
    }
}

#[database_test]
async fn a_restart_that_names_the_head_that_it_replaces_is_applied(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    let nodes = harness.nodes(cluster.id).await;
    let head = nodes.into_iter().find(|node| node.role == NodeRole::Head).expect("a head");
    fail_observations(&harness);
    let restart = changed(&harness, ActionKind::NodeRecover, &head, json!({})).await;
    assert_eq!(restart.status, ActionStatus::Failed);
    assert_eq!(ReplacedHead::of(&restart).map(|replaced| replaced.name), Some(head.name));
    assert!(restart.applied_at.is_some(), "{restart:?}");
    assert_eq!(harness.cluster(cluster.id).await.incarnation, cluster.incarnation + 1);
}

/// Makes the first observation of the next action fail, whatever the observer does meanwhile.
fn fail_observations(harness: &Harness) {
    for _ in 0..3 {
        harness
            .provider
            .fail_next(Verb::Observe, ProviderError::permanent("Broken", "it cannot be observed"));
    }
}

async fn assert_unchanged(harness: &Harness, before: &Cluster, kind: ActionKind) {
    let after = harness.cluster(before.id).await;
    let intent = |cluster: &Cluster| (cluster.desired(), cluster.generation, cluster.incarnation);
    assert_eq!(intent(&after), intent(before), "{kind}: {}", after.status_reason);
}

#[database_test]
async fn an_update_is_applied_before_anything_can_stop_it(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    harness.provider.hold(Verb::Observe);
    let inputs = json!({"metadata": {"a": 1}, "env": {"keys": {"A": "1"}}, "restart": "never"});
    let update = harness.submit(ActionKind::ClusterUpdate, &cluster, inputs).await;
    let applied = harness.applied(update).await;
    assert!(applied.applied_at.is_some(), "{applied:?}");
    harness.engine.signal(update, SignalKind::Cancel, None).await.unwrap();
    assert_eq!(harness.ended(update).await.status, ActionStatus::Cancelled);
    harness.provider.release();
    // Once an update is applied, its cancellation keeps the new intent, and what nodes still lack is known.
    let after = harness.cluster(cluster.id).await;
    assert_eq!((after.generation, after.metadata["a"].clone()), (cluster.generation + 1, json!(1)));
    assert_eq!(after.observed.outdated.len(), 2, "{:?}", after.observed);
}

#[database_test]
async fn what_a_cancelled_shrink_left_is_not_brought_back(harness: Harness) {
    let (cluster, _) = harness.created(5).await;
    harness.provider.hold(Verb::Stop);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(1)).await;
    harness.provider.begun(Verb::Stop, 4).await;
    harness.engine.signal(resize, SignalKind::Cancel, None).await.unwrap();
    harness.ended(resize).await;
    harness.provider.release();
    let recover = harness.submit(ActionKind::ClusterRecover, &cluster, json!({})).await;
    assert_eq!(harness.ended(recover).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.provider.running().len(), 1, "the size is the intent");
    harness.assert_agreement(cluster.id).await;
}

#[database_test]
async fn nothing_is_queued_after_a_deletion(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Stop);
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    harness.provider.begun(Verb::Stop, 1).await;
    let during = harness.refused(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    assert!(during.to_string().contains("CLUSTER_DELETE"), "{during}");
    harness.provider.release();
    assert_eq!(harness.ended(delete).await.status, ActionStatus::Succeeded);
    // The caller has read the row of the cluster before the deletion.
    let after = harness.refused(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    assert!(after.to_string().contains("could not be found"), "{after}");
    let gone = harness.cluster(cluster.id).await;
    assert_eq!(gone.status, ClusterStatus::Deleted, "history was changed");
}
