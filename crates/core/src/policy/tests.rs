mod batch;
mod health;
mod placement;
mod scaling;

use rstest::rstest;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::profile::ProfileType;

/// A policy of this type with these properties.
pub(super) fn policy(kind: &str, properties: &Value) -> Policy {
    let (name, version) = kind.rsplit_once('-').expect("a type and its version");
    let spec = json!({"type": name, "version": version, "properties": properties});
    Policy {
        id: PolicyId::from_uuid(Uuid::from_u128(1)),
        name: "sample".to_owned(),
        kind: kind.to_owned(),
        project: "demo".to_owned(),
        user: "ann".to_owned(),
        spec: spec.as_object().expect("a map").clone(),
        data: Map::new(),
        created_at: Timestamp::from_micros(1),
        updated_at: None,
    }
}

fn refused(kind: &str, properties: &Value) -> InvalidPolicy {
    let spec = Value::Object(policy(kind, properties).spec);
    check(&spec, PolicyRules::default()).expect_err("it is refused")
}

#[rstest]
#[case("senlin.policy.affinity-1.0", 300, true)]
#[case("senlin.policy.batch-1.0", 200, true)]
#[case("senlin.policy.deletion-1.0", 400, true)]
#[case("senlin.policy.deletion-1.1", 400, true)]
#[case("senlin.policy.health-1.0", 600, true)]
#[case("senlin.policy.health-1.1", 600, true)]
#[case("senlin.policy.health-1.2", 600, true)]
#[case("senlin.policy.loadbalance-1.0", 500, true)]
#[case("senlin.policy.loadbalance-1.3", 500, true)]
#[case("senlin.policy.region_placement-1.0", 200, true)]
#[case("senlin.policy.scaling-1.0", 100, false)]
#[case("senlin.policy.zone_placement-1.0", 300, true)]
fn a_type_is_found_by_name_and_version(#[case] name: &str, #[case] priority: i32, #[case] singleton: bool) {
    let (kind, version) = find(name).unwrap();
    assert_eq!(format!("{}-{}", kind.name, version.number), name);
    assert_eq!((kind.priority, kind.singleton), (priority, singleton));
}

#[rstest]
#[case("senlin.policy.scaling-1.1")]
#[case("senlin.policy.scaling")]
#[case("foo-1.0")]
fn another_version_is_another_type(#[case] name: &str) {
    assert!(find(name).is_none());
}

#[test]
fn support_status_is_listed_by_version() {
    let (batch, version) = find("senlin.policy.batch-1.0").unwrap();
    assert_eq!(version.support_status(), json!([{"status": "EXPERIMENTAL", "since": "2017.02"}]));
    assert_eq!(batch.support_status(), json!({"1.0": [{"status": "EXPERIMENTAL", "since": "2017.02"}]}));
    let versions = |kind: &PolicyKind| kind.versions.len();
    assert_eq!(KINDS.iter().map(|kind| versions(kind)).sum::<usize>(), 14);
}

#[rstest]
#[case("senlin.policy.scaling-1.0", true)]
#[case("senlin.policy.loadbalance-1.0", false)]
fn not_every_type_acts_on_every_cluster(#[case] name: &str, #[case] applies: bool) {
    let (kind, _) = find(name).unwrap();
    assert_eq!(kind.applies_to(&ProfileType::new("fake.node", "1.0")), applies);
    assert!(kind.applies_to(&ProfileType::new("simulated.node", "1.0")));
}

#[test]
fn a_type_that_is_not_known_is_named() {
    let spec = json!({"type": "foo", "version": 1.0, "properties": {}});
    let refused = check(&spec, PolicyRules::default()).unwrap_err();
    assert_eq!(refused.to_string(), "The policy_type 'foo-1.0' could not be found.");
}

#[test]
fn a_spec_is_kept_as_it_was_given() {
    let spec = json!({"type": "senlin.policy.deletion", "version": 1.0, "properties": {"grace_period": "5"}});
    let checked = check(&spec, PolicyRules::default()).unwrap();
    assert_eq!(checked.name, "senlin.policy.deletion-1.0");
    assert_eq!(Value::Object(checked.spec), spec);
}

#[rstest]
#[case("senlin.policy.scaling-1.0", json!({"event": "FOO"}), "'FOO' must be one of the allowed values: CLUSTER_SCALE_IN, CLUSTER_SCALE_OUT")]
#[case("senlin.policy.scaling-1.0", json!({}), "Required spec item 'event' not provided")]
#[case("senlin.policy.deletion-1.1", json!({"bogus": 1}), "Unrecognizable spec item 'bogus'")]
#[case("senlin.policy.deletion-1.1", json!({"criteria": "BEST"}), "'BEST' must be one of the allowed values: OLDEST_FIRST, OLDEST_PROFILE_FIRST, YOUNGEST_FIRST, RANDOM")]
#[case("senlin.policy.deletion-1.1", json!({"grace_period": "soon"}), "The value 'soon' is not a valid Integer")]
#[case("senlin.policy.deletion-1.1", json!({"hooks": {"type": "mail"}}), "'mail' must be one of the allowed values: zaqar, webhook")]
#[case("senlin.policy.health-1.2", json!({"recovery": {}}), "Required spec item 'detection' not provided")]
#[case("senlin.policy.loadbalance-1.3", json!({"pool": {}}), "Required spec item 'subnet' not provided")]
#[case("senlin.policy.affinity-1.0", json!({"servergroup": {"policies": "x"}}), "'x' must be one of the allowed values: affinity, soft-affinity, anti-affinity, soft-anti-affinity")]
#[case("senlin.policy.zone_placement-1.0", json!({"zones": {}}), "'{}' is not a List")]
#[case("senlin.policy.region_placement-1.0", json!({"regions": [5]}), "'5' is not a Map")]
fn what_does_not_fit_the_schema_is_refused(
    #[case] kind: &str,
    #[case] properties: Value,
    #[case] words: &str,
) {
    assert_eq!(refused(kind, &properties), InvalidPolicy::Schema(words.to_owned()));
}

#[rstest]
#[case("senlin.policy.scaling-1.0", json!({"event": "CLUSTER_SCALE_IN", "adjustment": {"number": 0}}), "the 'number' for 'adjustment' must be > 0")]
#[case("senlin.policy.scaling-1.0", json!({"event": "CLUSTER_SCALE_IN", "adjustment": {"min_step": -1}}), "the 'min_step' for 'adjustment' must be >= 0")]
#[case("senlin.policy.scaling-1.0", json!({"event": "CLUSTER_SCALE_IN", "adjustment": {"cooldown": -1}}), "the 'cooldown' for 'adjustment' must be >= 0")]
#[case("senlin.policy.deletion-1.0", json!({"hooks": {"type": "webhook"}}), "'hooks' of type 'webhook' need a 'url' in 'params'")]
#[case("senlin.policy.deletion-1.0", json!({"grace_period": -1}), "the 'grace_period' must be >= 0")]
#[case("senlin.policy.batch-1.0", json!({"max_batch_size": 0}), "the 'max_batch_size' must be > 0, or -1 for unlimited")]
#[case("senlin.policy.loadbalance-1.0", json!({"vip": {}}), "At least one of VIP Subnet or Network must be defined.")]
fn what_makes_no_sense_is_refused(#[case] kind: &str, #[case] properties: Value, #[case] words: &str) {
    assert_eq!(refused(kind, &properties), InvalidPolicy::Invalid(words.to_owned()));
}

#[rstest]
#[case(json!({}), None, None)]
#[case(json!({"destroy_after_deletion": false}), Some(false), None)]
#[case(json!({"destroy_after_deletion": "true"}), Some(true), None)]
#[case(json!({"hooks": {}}), None, None)]
#[case(json!({"hooks": {"timeout": 12}}), None, Some(12))]
fn a_deletion_policy_speaks_only_for_what_it_says(
    #[case] properties: Value,
    #[case] destroy: Option<bool>,
    #[case] hook_timeout: Option<i64>,
) {
    let settings =
        deletion::DeletionPolicySettings::from_policy(&policy("senlin.policy.deletion-1.1", &properties))
            .unwrap();
    assert_eq!(settings.destroy_after_deletion, destroy);
    assert_eq!(settings.hooks.map(|hooks| hooks.timeout), hook_timeout);
}
