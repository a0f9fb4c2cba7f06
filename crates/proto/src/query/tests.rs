use rstest::rstest;
use serde_json::json;

use super::*;
use crate::descriptor;

fn read_as(message: &str, query: &str) -> Result<Value, BadParameter> {
    let message = descriptor::message(&format!("muster.v1alpha2.{message}")).unwrap();
    read(&message, query, Bound::default(), UnknownNames::Refused).map(Value::Object)
}

#[rstest]
#[case("ListClustersRequest", "page_size=5&with_total=true", json!({"pageSize": 5, "withTotal": true}))]
#[case("ListClustersRequest", "pageSize=5&withTotal=0", json!({"pageSize": 5, "withTotal": false}))]
#[case("ListClustersRequest", "label=a%3Db&label=c=d+e", json!({"label": ["a=b", "c=d e"]}))]
#[case("ListClustersRequest", "state=ACTIVE", json!({"state": ["ACTIVE"]}))]
#[case("ListClustersRequest", "page_token=", json!({"pageToken": ""}))]
#[case("DeleteClusterRequest", "wait_timeout=10m&force=1", json!({"waitTimeout": "10m", "force": true}))]
#[case("UpdateClusterRequest", "update_mask=labels&update_mask=envs", json!({"updateMask": "labels,envs"}))]
#[case("CreateClusterRequest", "cluster.cluster_spec.head_group_spec.image=x&cluster.name=n",
    json!({"cluster": {"name": "n", "clusterSpec": {"headGroupSpec": {"image": "x"}}}}))]
#[case("CreateClusterRequest", "cluster.environment=STAGING", json!({"cluster": {"environment": 2}}))]
#[case("CreateClusterRequest", "cluster.environment=3", json!({"cluster": {"environment": 3}}))]
#[case("CreateClusterRequest", "cluster.createdAt=2026-01-31T12:00:00Z",
    json!({"cluster": {"createdAt": "2026-01-31T12:00:00Z"}}))]
fn a_query_fills_the_fields_that_it_names(#[case] message: &str, #[case] query: &str, #[case] object: Value) {
    assert_eq!(read_as(message, query).unwrap(), object);
}

#[rstest]
#[case(
    "ListClustersRequest",
    "page_size=many",
    "page_size is 'many': a whole number from -2147483648 to 2147483647 is expected"
)]
#[case("ListClustersRequest", "pageSize=99999999999", "pageSize is '99999999999': a whole number")]
#[case("ListClustersRequest", "with_total=yes", "with_total is 'yes': true or false is expected")]
#[case("ListClustersRequest", "page_size=1&page_size=2", "page_size is given 2 times")]
#[case("DeleteClusterRequest", "wait_timeout=soon", "a duration such as 30s")]
#[case(
    "CreateClusterRequest",
    "cluster.environment=MOON",
    "one of DEV, TESTING, STAGING, PRODUCTION is expected"
)]
#[case("CreateClusterRequest", "cluster.created_at=now", "a moment such as")]
#[case("CreateClusterRequest", "cluster.labels=a", "cluster.labels cannot be given in the query")]
#[case("CreateClusterRequest", "cluster=a", "cluster cannot be given in the query")]
#[case("CreateClusterRequest", "cluster.profile_properties=a", "it is an object")]
#[case("ListClustersRequest", "page_size=1&pageSize=2", "pageSize is given 2 times: give it once")]
#[case("CreateClusterRequest", "waitfor=reached", "'waitfor' is not known: did you mean 'wait_for'?")]
#[case("CreateClusterRequest", "waitFro=reached", "did you mean 'waitFor'?")]
#[case("CreateClusterRequest", "cluster.naem=1", "'cluster.naem' is not known: did you mean 'name'?")]
#[case("CreateClusterRequest", "cluster.name.more=1", "'cluster.name.more' is not known: leave it out")]
#[case("GetActionRequest", "verbose=1", "'verbose' is not known: use one of id")]
fn a_bad_value_is_named(#[case] message: &str, #[case] query: &str, #[case] words: &str) {
    let error = read_as(message, query).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

fn read_bound(query: &str, unknown: UnknownNames) -> Result<Value, String> {
    let message = descriptor::message("muster.v1alpha2.CreateClusterRequest").unwrap();
    let bound = Bound { path: &["namespace"], body: Some("cluster") };
    read(&message, query, bound, unknown).map(Value::Object).map_err(|error| error.to_string())
}

#[test]
fn what_the_body_fills_is_not_taken_from_the_query() {
    let refused = read_bound("cluster.name=y", UnknownNames::Refused);
    assert_eq!(refused.unwrap_err(), "cluster.name cannot be given in the query: it belongs in the body");
    let path = read_bound("namespace=x", UnknownNames::Refused);
    assert_eq!(path, Ok(json!({"namespace": "x"})), "to be compared with the path");
}

#[test]
fn a_lenient_package_ignores_unknown_and_bound_names() {
    let query = "namespace=x&cluster.name=y&request_id=z&unknown=1&also.unknown=2&wait_for.more=1";
    assert_eq!(read_bound(query, UnknownNames::Ignored), Ok(json!({"requestId": "z"})));
}
