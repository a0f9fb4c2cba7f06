use rstest::rstest;
use serde_json::{Value, json};

use super::policy;
use crate::policy::scaling::ScalingPolicySettings;
use crate::resize::Sizes;
use crate::time::{TimeSpan, Timestamp};

const IN: &str = "CLUSTER_SCALE_IN";
const OUT: &str = "CLUSTER_SCALE_OUT";

fn settings(event: &str, adjustment: &Value) -> ScalingPolicySettings {
    let properties = json!({"event": event, "adjustment": adjustment});
    policy("senlin.policy.scaling-1.0", &properties).settings().expect("it fits")
}

/// The count for a cluster with five members and bounds from 1 to 10.
fn count(event: &str, adjustment: &Value, asked: Option<u32>) -> Result<u32, String> {
    let present = Sizes { size: 5, min: 1, max: Some(10) };
    settings(event, adjustment).count(asked, present, 1000)
}

#[rstest]
#[case(OUT, json!({}), 1)]
#[case(IN, json!({}), 1)]
#[case(OUT, json!({"number": 2}), 2)]
#[case(OUT, json!({"number": 2.9}), 2)]
#[case(OUT, json!({"type": "EXACT_CAPACITY", "number": 8}), 3)]
#[case(IN, json!({"type": "EXACT_CAPACITY", "number": 3}), 2)]
#[case(OUT, json!({"type": "CHANGE_IN_PERCENTAGE", "number": 50}), 2)]
#[case(OUT, json!({"type": "CHANGE_IN_PERCENTAGE", "number": 10}), 1)]
#[case(OUT, json!({"type": "CHANGE_IN_PERCENTAGE", "number": 10, "min_step": 3}), 3)]
#[case(OUT, json!({"number": 9, "best_effort": true}), 5)]
#[case(IN, json!({"number": 9, "best_effort": true}), 4)]
fn the_number_of_nodes_is_computed(#[case] event: &str, #[case] adjustment: Value, #[case] expected: u32) {
    assert_eq!(count(event, &adjustment, None), Ok(expected));
}

#[rstest]
#[case(OUT, json!({"number": 6}), "The target capacity (11) is greater than the cluster's max_size (10).")]
#[case(IN, json!({"number": 5}), "The target capacity (0) is less than the cluster's min_size (1).")]
#[case(OUT, json!({"type": "EXACT_CAPACITY", "number": 3}), "Invalid count (-2) for action 'CLUSTER_SCALE_OUT'.")]
#[case(IN, json!({"type": "EXACT_CAPACITY", "number": 5}), "Invalid count (0) for action 'CLUSTER_SCALE_IN'.")]
#[case(OUT, json!({"number": 0.5}), "Invalid count (0) for action 'CLUSTER_SCALE_OUT'.")]
fn what_cannot_be_done_is_refused(#[case] event: &str, #[case] adjustment: Value, #[case] words: &str) {
    assert_eq!(count(event, &adjustment, None), Err(words.to_owned()));
}

#[test]
fn the_requests_count_replaces_the_number_but_not_the_bounds() {
    assert_eq!(count(OUT, &json!({"number": 1}), Some(4)), Ok(4));
    assert_eq!(count(OUT, &json!({"number": 1, "best_effort": true}), Some(40)), Ok(5));
    let refused = count(OUT, &json!({"number": 1}), Some(6)).unwrap_err();
    assert_eq!(refused, "The target capacity (11) is greater than the cluster's max_size (10).");
}

#[test]
fn at_its_bound_a_best_effort_changes_nothing() {
    let full = Sizes { size: 10, min: 1, max: Some(10) };
    assert_eq!(settings(OUT, &json!({"best_effort": true})).count(None, full, 1000), Ok(0));
    let unbounded = Sizes { size: 999, min: 0, max: None };
    assert_eq!(settings(OUT, &json!({"number": 5, "best_effort": true})).count(None, unbounded, 1000), Ok(1));
}

#[test]
fn a_cluster_rests_until_its_cooldown_is_over() {
    let settings = settings(OUT, &json!({"cooldown": 60}));
    let last = Timestamp::from_micros(1_000_000);
    assert!(settings.is_cooling(Some(last), last.after(TimeSpan::from_secs(59))));
    assert!(!settings.is_cooling(Some(last), last.after(TimeSpan::from_secs(60))));
    assert!(!settings.is_cooling(None, last));
}
