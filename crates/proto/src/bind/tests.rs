use rstest::rstest;
use serde_json::json;

use super::*;
use crate::rest::METHODS;

fn bind(method: &str, path: &[(&str, &str)], query: &str, body: Option<Value>) -> Result<Value, BadRequest> {
    let method = METHODS.iter().find(|known| known.grpc_path.ends_with(method)).unwrap();
    let path: Vec<(String, String)> =
        path.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    request(method, &method.rules[0], &path, query, body).map(Value::Object)
}

const PLACE: [(&str, &str); 2] = [("namespace", "ns"), ("name", "n")];

#[test]
fn path_query_and_body_make_one_request() {
    let body = Some(json!({"name": "n"}));
    let request = bind("/CreateCluster", &PLACE[..1], "wait_for=reached&watch=no", body).unwrap();
    assert_eq!(request, json!({"cluster": {"name": "n"}, "namespace": "ns", "waitFor": "reached"}));
}

#[test]
fn a_whole_body_is_known_by_both_spellings_and_wins_over_the_query() {
    let body = Some(json!({"group_name": "g", "replicas": 3, "nothing": 1}));
    let request = bind("/ScaleCluster", &PLACE, "groupName=other&request_id=r", body).unwrap();
    assert_eq!(
        request,
        json!({"groupName": "g", "replicas": 3, "namespace": "ns", "name": "n", "requestId": "r"})
    );
}

#[test]
fn a_body_may_repeat_what_the_path_says_but_not_contradict_it() {
    let same = bind("/ScaleCluster", &PLACE, "", Some(json!({"name": "n", "namespace": ""})));
    assert_eq!(same.unwrap(), json!({"namespace": "ns", "name": "n"}));
    let error = bind("/ScaleCluster", &PLACE, "", Some(json!({"name": "m"}))).unwrap_err().to_string();
    assert!(error.contains("name is 'n' in the path and 'm' in the body"), "{error}");
}

#[rstest]
#[case(json!(null), "null")]
#[case(json!([]), "an array")]
#[case(json!("x"), "text")]
#[case(json!(1), "a number")]
fn a_body_that_is_no_object_is_refused(#[case] body: Value, #[case] what: &'static str) {
    assert_eq!(
        bind("/CreateCluster", &PLACE[..1], "", Some(body.clone())),
        Err(BadRequest::NotAnObject(what))
    );
    assert_eq!(bind("/ScaleCluster", &PLACE, "", Some(body)), Err(BadRequest::NotAnObject(what)));
}

#[test]
fn one_field_in_both_spellings_is_refused() {
    let body = Some(json!({"group_name": "g", "groupName": "g"}));
    assert_eq!(bind("/ScaleCluster", &PLACE, "", body), Err(BadRequest::Twice("group_name".to_owned())));
}

#[test]
fn a_patch_without_a_mask_changes_what_its_body_has() {
    let body = json!({
        "labels": {"a": "b"},
        "idleTimeout": "10m",
        "clusterSpec": {"head_group_spec": {"image": "i", "shape": {"cpu": "1"}}, "workerGroupSpec": [
            {"groupName": "a", "replicas": 0}, {"groupName": "b", "shape": {"memory": "1Gi"}, "environment": {}},
        ]},
        "unknown": 1,
    });
    let request = bind("/UpdateCluster", &PLACE, "", Some(body.clone())).unwrap();
    let mask = request["updateMask"].as_str().unwrap();
    let mut paths: Vec<&str> = mask.split(',').collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "cluster_spec.head_group_spec.image",
            "cluster_spec.head_group_spec.shape.cpu",
            "cluster_spec.worker_group_spec",
            "cluster_spec.worker_group_spec.0.group_name",
            "cluster_spec.worker_group_spec.0.replicas",
            "cluster_spec.worker_group_spec.1.environment",
            "cluster_spec.worker_group_spec.1.group_name",
            "cluster_spec.worker_group_spec.1.shape.memory",
            "idle_timeout",
            "labels"
        ]
    );
    let request = bind("/UpdateCluster", &PLACE, "update_mask=labels", Some(body)).unwrap();
    assert_eq!(request["updateMask"], "labels");
}

#[test]
fn null_is_as_good_as_absent_but_a_value_within_a_struct() {
    let body = json!({
        "name": null,
        "clusterSpec": {"workerGroupSpec": [{"groupName": "g", "volumes": null, "minReplicas": null}]},
        "profileProperties": {"a": null},
        "labels": {"a": null, "b": "c"},
    });
    let request = bind("/CreateCluster", &PLACE[..1], "", Some(body)).unwrap();
    assert_eq!(
        request["cluster"],
        json!({
            "clusterSpec": {"workerGroupSpec": [{"groupName": "g"}]},
            "profileProperties": {"a": null},
            "labels": {"b": "c"},
        })
    );
}
