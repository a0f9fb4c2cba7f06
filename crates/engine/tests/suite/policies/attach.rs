//! Policies are attached, enabled and detached by actions.

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::Cluster;
use muster_core::policy::Policy;
use muster_testkit::database_test;
use rstest::rstest;
use serde_json::json;

use super::{attach, ended, policy, with_policies};
use crate::harness::{Harness, Kind};

async fn change_policy(harness: &Harness, cluster: &Cluster, policy: &Policy, enabled: bool) -> Action {
    let inputs = json!({"policy_id": policy.id, "enabled": enabled});
    ended(harness, ActionKind::ClusterUpdatePolicy, cluster, inputs).await
}

async fn detached(harness: &Harness, cluster: &Cluster, policy: &Policy) -> Action {
    ended(harness, ActionKind::ClusterDetachPolicy, cluster, json!({"policy_id": policy.id})).await
}

fn assert_ended(action: &Action, status: ActionStatus, reason: &str) {
    assert_eq!((action.status, action.status_reason.as_str()), (status, reason));
}

#[database_test(with_policies)]
async fn a_policy_is_attached_enabled_and_detached(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    let deletion = policy(&harness, "senlin.policy.deletion-1.1", json!({})).await;
    assert_ended(
        &detached(&harness, &cluster, &deletion).await,
        ActionStatus::Failed,
        "Policy not attached.",
    );
    let attached = attach(&harness, &cluster, &deletion).await;
    assert_ended(&attached, ActionStatus::Succeeded, "Policy attached.");
    let binding = harness.store().binding(cluster.id, deletion.id).await.unwrap().unwrap();
    assert_eq!((binding.enabled, binding.priority, binding.last_op), (true, 400, None));
    let again = attach(&harness, &cluster, &deletion).await;
    assert_ended(&again, ActionStatus::Succeeded, "Policy already attached.");
    let disabled = change_policy(&harness, &cluster, &deletion, false).await;
    assert_ended(&disabled, ActionStatus::Succeeded, "Policy updated.");
    assert!(!harness.store().binding(cluster.id, deletion.id).await.unwrap().unwrap().enabled);
    let same = change_policy(&harness, &cluster, &deletion, false).await;
    assert_ended(&same, ActionStatus::Succeeded, "No update is needed.");
    let gone = detached(&harness, &cluster, &deletion).await;
    assert_ended(&gone, ActionStatus::Succeeded, "Policy detached.");
    assert_eq!(harness.store().bindings(cluster.id).await.unwrap(), []);
}

#[database_test(with_policies)]
async fn a_cluster_has_one_policy_of_a_type_unless_that_is_scaling(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    let first = policy(&harness, "senlin.policy.deletion-1.1", json!({})).await;
    let second = policy(&harness, "senlin.policy.deletion-1.1", json!({})).await;
    let older = policy(&harness, "senlin.policy.deletion-1.0", json!({})).await;
    attach(&harness, &cluster, &first).await;
    let conflict = attach(&harness, &cluster, &second).await;
    let reason = format!(
        "Only one instance of policy type (senlin.policy.deletion-1.1) can be attached to a cluster, but another \
         instance ({}) is found attached to the cluster ({}) already.",
        first.id, cluster.id
    );
    assert_ended(&conflict, ActionStatus::Failed, &reason);
    assert_eq!(attach(&harness, &cluster, &older).await.status, ActionStatus::Succeeded, "another version");
    for event in ["CLUSTER_SCALE_IN", "CLUSTER_SCALE_OUT"] {
        let scaling = policy(&harness, "senlin.policy.scaling-1.0", json!({"event": event})).await;
        assert_eq!(attach(&harness, &cluster, &scaling).await.status, ActionStatus::Succeeded);
    }
    let kinds: Vec<_> = harness.store().bindings(cluster.id).await.unwrap();
    assert_eq!(kinds.iter().map(|binding| binding.priority).collect::<Vec<_>>(), [100, 100, 400, 400]);
}

#[rstest]
#[case("senlin.policy.zone_placement-1.0", json!({"zones": [{"name": "az1"}]}), "nodes of fake.node-1.0 cannot be placed by a policy: a policy of type senlin.policy.zone_placement-1.0 cannot be attached")]
#[case("senlin.policy.region_placement-1.0", json!({"regions": [{"name": "r1"}]}), "nodes of fake.node-1.0 cannot be placed by a policy: a policy of type senlin.policy.region_placement-1.0 cannot be attached")]
#[case("senlin.policy.affinity-1.0", json!({}), "nodes of fake.node-1.0 cannot be placed by a policy: a policy of type senlin.policy.affinity-1.0 cannot be attached")]
#[case("senlin.policy.loadbalance-1.0", json!({}), "Policy not applicable on profile type: fake.node-1.0. Policies of type senlin.policy.loadbalance-1.0 act on simulated.node only.")]
#[case("senlin.policy.deletion-1.0", json!({"hooks": {"timeout": 5}}), "'hooks' of type 'zaqar' need a message queue, which this server does not have: use type 'webhook'")]
#[case("senlin.policy.health-1.0", json!({"detection": {"detection_modes": []}, "recovery": {"fencing": ["COMPUTE"]}}), "'fencing' is COMPUTE: fencing is not supported; leave it out")]
#[case("senlin.policy.health-1.0", json!({"detection": {"detection_modes": []}, "recovery": {"actions": [{"name": "REBOOT"}]}}), "nodes of fake.node-1.0 are recovered by RECREATE, not by REBOOT")]
#[tokio::test]
async fn a_policy_that_could_not_act_is_refused(
    #[case] name: &str,
    #[case] properties: serde_json::Value,
    #[case] reason: &str,
) {
    let Some(harness) = with_policies(Kind::Sqlite).await else { return };
    let (cluster, _) = harness.created(1).await;
    let policy = policy(&harness, name, properties).await;
    assert_ended(&attach(&harness, &cluster, &policy).await, ActionStatus::Failed, reason);
    assert_eq!(harness.store().bindings(cluster.id).await.unwrap(), []);
}

#[database_test(with_policies)]
async fn workers_that_cannot_leave_are_destroyed_or_not_at_all(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    let leave =
        policy(&harness, "senlin.policy.deletion-1.0", json!({"destroy_after_deletion": false})).await;
    let reason = "workers of fake.cluster-1.0 cannot leave: a deletion policy whose 'destroy_after_deletion' is false \
                  cannot be attached";
    assert_ended(&attach(&harness, &cluster, &leave).await, ActionStatus::Failed, reason);
    let destroy = policy(&harness, "senlin.policy.deletion-1.0", json!({})).await;
    assert_eq!(attach(&harness, &cluster, &destroy).await.status, ActionStatus::Succeeded);
}
