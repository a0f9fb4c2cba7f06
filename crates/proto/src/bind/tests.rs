use rstest::rstest;
use serde_json::json;

use super::*;
use crate::rest::{METHODS, UnknownNames};

fn method(name: &str) -> &'static Method {
    let is_ours = |path: &str| path.starts_with("/muster.") && path.ends_with(name);
    METHODS.iter().find(|known| is_ours(known.grpc_path)).unwrap()
}

fn bind(name: &str, path: &[(&str, &str)], query: &str, body: Option<Value>) -> Result<Value, BadRequest> {
    bind_to(method(name), path, query, body)
}

fn bind_to(
    method: &Method,
    path: &[(&str, &str)],
    query: &str,
    body: Option<Value>,
) -> Result<Value, BadRequest> {
    let path: Vec<(String, String)> =
        path.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    request(method, &method.rules[0], &path, query, body).map(Value::Object)
}

const PLACE: [(&str, &str); 2] = [("namespace", "ns"), ("name", "n")];

#[test]
fn path_query_and_body_make_one_request() {
    let body = Some(json!({"name": "n"}));
    let request = bind("/CreateCluster", &PLACE[..1], "wait_for=reached", body).unwrap();
    assert_eq!(request, json!({"cluster": {"name": "n"}, "namespace": "ns", "waitFor": "reached"}));
}

#[test]
fn a_whole_body_is_known_by_both_spellings_and_wins_over_the_query() {
    let body = Some(json!({"group_name": "g", "replicas": 3}));
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
    assert!(error.contains("name is 'n' in the path and 'm' in the body or query"), "{error}");
    assert_eq!(
        bind("/ScaleCluster", &PLACE, "name=n", None).unwrap(),
        json!({"namespace": "ns", "name": "n"})
    );
    let error = bind("/ScaleCluster", &PLACE, "name=m", None).unwrap_err().to_string();
    assert!(error.contains("name is 'n' in the path and 'm' in the body or query"), "{error}");
}

#[rstest]
#[case("/CreateCluster", "wait_for", json!({"cluster": {"name": "n"}, "namespace": "ns", "waitFor": "reached"}))]
#[case("/UpdateCluster", "waitFor", json!({"cluster": {"name": "n"}, "namespace": "ns", "name": "n",
    "updateMask": "name", "waitFor": "reached"}))]
fn the_body_of_a_mutation_may_say_what_to_wait_for(
    #[case] method: &str,
    #[case] spelling: &str,
    #[case] expected: Value,
) {
    let path = if method == "/CreateCluster" { &PLACE[..1] } else { &PLACE };
    let body = Some(json!({"name": "n", spelling: "reached"}));
    assert_eq!(bind(method, path, "wait_for=accepted", body).unwrap(), expected);
}

#[test]
fn the_body_of_a_delete_is_read() {
    let request = bind("/DeleteCluster", &PLACE, "", Some(json!({"force": true, "request_id": "r"})));
    assert_eq!(request.unwrap(), json!({"namespace": "ns", "name": "n", "force": true, "requestId": "r"}));
}

#[rstest]
#[case("/CreateCluster", json!({"waitfor": "reached"}), "'cluster.waitfor' is not known: did you mean 'wait_for'?")]
#[case("/ScaleCluster", json!({"replcas": 3}), "'replcas' is not known: did you mean 'replicas'?")]
#[case("/UpdateCluster", json!({"cluster_spec": {"worker_group_spec": [{"shape": {"memry": "2Gi"}}]}}),
    "'cluster.cluster_spec.worker_group_spec[0].shape.memry' is not known: did you mean 'memory'?")]
fn unknown_names_are_refused_or_ignored_as_the_package_says(
    #[case] name: &str,
    #[case] body: Value,
    #[case] words: &str,
) {
    let path = if name == "/CreateCluster" { &PLACE[..1] } else { &PLACE };
    let error = bind(name, path, "", Some(body.clone())).unwrap_err().to_string();
    assert_eq!(error, words);
    let strict = method(name);
    let lenient = Method { unknown_names: UnknownNames::Ignored, ..*strict };
    bind_to(&lenient, path, "unknown=1", Some(body)).unwrap();
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

#[test]
fn whole_numbers_may_be_written_with_a_fraction_or_an_exponent() {
    let bound = |group: &Value| {
        let spec = json!({"clusterSpec": {"workerGroupSpec": [group]}});
        bind("/CreateCluster", &PLACE[..1], "", Some(spec)).unwrap()["cluster"]["clusterSpec"]["workerGroupSpec"][0]
            .clone()
    };
    let given = json!({"replicas": 2.0, "minReplicas": 1e0, "maxReplicas": -0.0, "shape": {"gpu": 1.0}});
    let expected = json!({"replicas": 2, "minReplicas": 1, "maxReplicas": 0, "shape": {"gpu": 1}});
    assert_eq!(bound(&given), expected);
    for other in [json!({"replicas": 2.5}), json!({"replicas": 1e300}), json!({"groupName": 2.0})] {
        assert_eq!(bound(&other), other, "left for deserialization to refuse");
    }
    let scale = bind("/ScaleCluster", &PLACE, "", Some(json!({"replicas": 3.0}))).unwrap();
    assert_eq!(scale["replicas"], json!(3));
    let properties = json!({"profileProperties": {"a": 2.0}});
    let request = bind("/CreateCluster", &PLACE[..1], "", Some(properties.clone())).unwrap();
    assert_eq!(request["cluster"], properties, "a Struct has its own numbers");
    let template = json!({"extended_resources": {"a.com/x": 2.0}, "cpu": 2.0});
    let request = bind("/CreateComputeTemplate", &PLACE[..1], "", Some(template)).unwrap();
    assert_eq!(request["computeTemplate"], json!({"extended_resources": {"a.com/x": 2}, "cpu": 2}));
}
