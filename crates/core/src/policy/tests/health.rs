use rstest::rstest;
use serde_json::{Value, json};

use super::{policy, refused};
use crate::policy::health::{HealthPolicySettings, Operation};
use crate::policy::{InvalidPolicy, PolicyRules, check};
use crate::time::{TimeSpan, Timestamp};

const KIND: &str = "senlin.policy.health-1.2";

fn spec(detection: &Value, recovery: &Value) -> Value {
    json!({"detection": detection, "recovery": recovery})
}

fn modes(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"type": name})).collect()
}

fn settings(detection: &Value) -> HealthPolicySettings {
    policy(KIND, &spec(detection, &json!({"actions": [{"name": "REBOOT"}]}))).settings().expect("it fits")
}

#[rstest]
#[case(&["NODE_STATUS_POLLING", "LIFECYCLE_EVENTS"], "Invalid detection modes in health policy: NODE_STATUS_POLLING, LIFECYCLE_EVENTS")]
#[case(&["LIFECYCLE_EVENTS", "LIFECYCLE_EVENTS"], "Invalid detection modes in health policy: LIFECYCLE_EVENTS, LIFECYCLE_EVENTS")]
#[case(&["NODE_STATUS_POLLING", "NODE_STATUS_POLLING"], "Duplicate detection modes are not allowed in health policy: NODE_STATUS_POLLING, NODE_STATUS_POLLING")]
fn modes_that_do_not_go_together_are_refused(#[case] names: &[&str], #[case] words: &str) {
    let properties = spec(&json!({"detection_modes": modes(names)}), &json!({}));
    assert_eq!(refused(KIND, &properties), InvalidPolicy::Invalid(words.to_owned()));
}

#[test]
fn modes_that_differ_in_an_option_are_no_duplicates() {
    let url = |url| json!({"type": "NODE_STATUS_POLL_URL", "options": {"poll_url": url}});
    let properties = spec(&json!({"detection_modes": [url("http://a"), url("http://b")]}), &json!({}));
    let spec = Value::Object(policy(KIND, &properties).spec);
    assert!(check(&spec, PolicyRules::default()).is_ok());
}

#[test]
fn an_interval_below_the_setting_is_refused() {
    let detection = json!({"interval": 10, "detection_modes": modes(&["NODE_STATUS_POLLING"])});
    let words = "Specified interval of 10 seconds has to be larger than health_check_interval_min of 60 seconds set \
                 in configuration.";
    assert_eq!(refused(KIND, &spec(&detection, &json!({}))), InvalidPolicy::Invalid(words.to_owned()));
    let spec = Value::Object(policy(KIND, &spec(&detection, &json!({}))).spec);
    assert!(check(&spec, PolicyRules { health_check_interval_min: 1 }).is_ok());
}

#[test]
fn one_recovery_action_is_enough() {
    let recovery = json!({"actions": [{"name": "REBOOT"}, {"name": "RECREATE"}]});
    let properties = spec(&json!({"detection_modes": modes(&["NODE_STATUS_POLLING"])}), &recovery);
    let words = "Only one 'actions' is supported for now.".to_owned();
    assert_eq!(refused(KIND, &properties), InvalidPolicy::Schema(words));
}

#[rstest]
#[case("ANY_FAILED", &[true, true], true)]
#[case("ANY_FAILED", &[true, false], false)]
#[case("ALL_FAILED", &[true, false], true)]
#[case("ALL_FAILED", &[false, false], false)]
#[case("ALL_FAILED", &[], true)]
#[case("ANY_FAILED", &[], true)]
fn a_node_is_healthy_by_the_results_of_all_checks(
    #[case] conditional: &str,
    #[case] results: &[bool],
    #[case] healthy: bool,
) {
    let settings = settings(&json!({"recovery_conditional": conditional, "detection_modes": []}));
    assert_eq!(settings.is_healthy(results.iter().copied()), healthy);
}

#[test]
fn absent_settings_have_defaults() {
    let settings = settings(&json!({"detection_modes": modes(&["NODE_STATUS_POLL_URL"])}));
    assert_eq!(settings.operation(), Operation::Reboot);
    assert_eq!((settings.interval(), settings.grace()), (TimeSpan::from_secs(60), TimeSpan::from_secs(300)));
    let options = &settings.detection.detection_modes[0].options;
    assert_eq!((options.poll_url_retry_limit, options.poll_url_ssl_verify), (3, true));
    let changed = Timestamp::from_micros(0);
    assert!(settings.is_settling(changed, changed.after(TimeSpan::from_secs(299))));
    assert!(!settings.is_settling(changed, changed.after(TimeSpan::from_secs(300))));
}
