use muster_core::action::Fence;
use muster_core::sample;
use muster_core::time::Timestamp;
use rstest::rstest;
use serde_json::json;

use super::*;

struct At(i64);

impl Clock for At {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0)
    }
}

fn profile(properties: &Value) -> Profile {
    Profile { properties: properties.as_object().unwrap().clone(), ..sample::profile() }
}

async fn start(properties: Value) -> Vec<NodeResult> {
    let (cluster, profile) = (sample::cluster(2, 0, None), profile(&properties));
    let call = FencedCall { cluster: &cluster, profile: &profile, fence: Fence(1) };
    let provider = SimulatedProvider::new("db", At(1));
    provider.start_nodes(call, vec![sample::node(1), sample::node(2)]).collect().await
}

#[tokio::test]
async fn nodes_are_up_at_once_and_keep_their_physical_id() {
    let first = start(json!({})).await;
    assert_eq!(first.len(), 2);
    assert_eq!(first, start(json!({})).await, "another server observes the same nodes");
    assert_ne!(first[0].result, first[1].result);
}

#[tokio::test]
async fn creation_fails_where_the_profile_says_so() {
    let results = start(json!({"metadata": {"simulated_failure": "create"}})).await;
    let error = results[0].result.clone().unwrap_err();
    assert!(!error.transient);
    assert_eq!(error.message, "the profile says that creation fails (simulated_failure)");
}

#[tokio::test(start_paused = true)]
async fn a_wait_delays_creation() {
    let begun = tokio::time::Instant::now();
    start(json!({"metadata": {"simulated_wait_time": 2}})).await;
    assert_eq!(begun.elapsed().as_secs(), 2);
}

#[test]
fn a_wait_counts_from_the_recorded_start() {
    let provider = SimulatedProvider::new("db", At(1_500_000));
    let node = Node { starts: vec![Timestamp::from_micros(500_000)], ..sample::node(1) };
    let properties =
        SimulatedProperties::from_profile(&profile(&json!({"metadata": {"simulated_wait_time": "3"}})))
            .unwrap();
    assert_eq!(provider.remaining_wait(&node, &properties), Duration::from_secs(2));
}

#[rstest]
#[case(json!({}), Activity::IdleSince(Timestamp::from_micros(1)))]
#[case(json!({"metadata": {"simulated_activity": "idle"}}), Activity::IdleSince(Timestamp::from_micros(1)))]
#[case(json!({"metadata": {"simulated_activity": "busy"}}), Activity::Busy)]
#[case(json!({"metadata": {"simulated_activity": "unknown"}}), Activity::Unknown)]
#[tokio::test]
async fn a_simulated_cluster_is_idle_unless_the_profile_says_otherwise(
    #[case] properties: Value,
    #[case] expected: Activity,
) {
    let (cluster, profile) = (sample::cluster(2, 0, None), profile(&properties));
    let target = ClusterTarget { cluster: &cluster, profile: &profile };
    assert_eq!(SimulatedProvider::new("db", At(1)).activity(target).await, Ok(expected));
}

#[rstest]
#[case(json!({"bogus": 1}), "Unrecognizable spec item 'bogus': one of flavor, name, image, networks, key_name, metadata is expected")]
#[case(json!({"metadata": 3}), "'3' is not a Map")]
#[case(json!({"metadata": {"simulated_wait_time": -1}}), "simulated_wait_time is -1: must be a number of seconds between 0 and 86400")]
#[case(json!({"metadata": {"simulated_failure": "x"}}), "'x' is not a simulated_failure: must be create, delete, check or update")]
#[case(json!({"metadata": {"simulated_activity": 1}}), "'1' is not a simulated_activity: must be idle, busy or unknown")]
fn an_invalid_profile_is_refused_with_a_message(#[case] properties: Value, #[case] message: &str) {
    assert_eq!(
        SimulatedProvider::new("db", At(0)).check_profile(&profile(&properties)).unwrap_err(),
        message
    );
}
