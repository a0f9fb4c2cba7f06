use rstest::rstest;
use serde_json::json;

use super::*;
use crate::descriptor;

fn check_cluster(body: &Value, unknown: UnknownNames) -> Result<(), String> {
    let message = descriptor::message("muster.v1alpha2.Cluster").unwrap();
    let fields: Vec<_> = message.fields().collect();
    check(&fields, body.as_object().unwrap(), "cluster.", unknown).map_err(|error| error.to_string())
}

fn group(group: &Value) -> Value {
    json!({"cluster_spec": {"workerGroupSpec": [{}, group]}})
}

#[rstest]
#[case(json!({"clusterspec": {}}), "'cluster.clusterspec' is not known: did you mean 'cluster_spec'?")]
#[case(json!({"idleTimeOut": "1h"}), "did you mean 'idleTimeout'?")]
#[case(
    group(&json!({"replcas": 2})),
    "'cluster.cluster_spec.workerGroupSpec[1].replcas' is not known: did you mean 'replicas'?"
)]
#[case(
    group(&json!({"shape": {"colour": {"memory": "2Gi"}}})),
    "'cluster.cluster_spec.workerGroupSpec[1].shape.colour' is not known: use one of cpu, memory, gpu, name"
)]
#[case(
    json!({"environment": "STAGEING"}),
    "cluster.environment is 'STAGEING': one of DEV, TESTING, STAGING, PRODUCTION is expected"
)]
#[case(json!({"environment": 9}), "cluster.environment is '9': one of DEV")]
#[case(json!({"environment": "3"}), "cluster.environment is '3': one of DEV")]
#[case(group(&json!({"volumes": [{"volume_type": "TAPE"}]})), "volumes[0].volume_type is 'TAPE'")]
fn an_unknown_name_is_refused_with_its_path(#[case] body: Value, #[case] words: &str) {
    let error = check_cluster(&body, UnknownNames::Refused).unwrap_err();
    assert!(error.contains(words), "{error}");
    assert_eq!(check_cluster(&body, UnknownNames::Ignored), Ok(()));
}

#[rstest]
#[case(json!({"labels": {"anything": "x"}, "profile_properties": {"any": {"thing": 1}}}))]
#[case(json!({"environment": "STAGING", "clusterSpec": {"headGroupSpec": {"environment": {"any": "x"}}}}))]
#[case(json!({"environment": 2, "idle_timeout": "1h"}))]
#[case(json!({"cluster_spec": 5, "labels": 6}))]
fn both_spellings_and_free_keys_are_known(#[case] body: Value) {
    assert_eq!(check_cluster(&body, UnknownNames::Refused), Ok(()));
}

#[rstest]
fn one_field_in_both_spellings_is_refused_wherever_it_stands(
    #[values(UnknownNames::Refused, UnknownNames::Ignored)] unknown: UnknownNames,
) {
    let error = check_cluster(&group(&json!({"group_name": "a", "groupName": "a"})), unknown).unwrap_err();
    assert_eq!(
        error,
        "the body has 'cluster.cluster_spec.workerGroupSpec[1].group_name' twice, once in each spelling: \
         give it once"
    );
}
