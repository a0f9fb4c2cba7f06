use muster_api::rest::BODY_LIMIT;
use reqwest::{Method, header};
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{Harness, answer};

const CLUSTERS: &str = "/apis/v1alpha2/namespaces/ns/clusters";

#[tokio::test]
async fn a_cluster_belongs_to_its_caller_and_the_action_is_in_the_header() {
    let harness = Harness::new().await;
    let body = json!({"name": "c", "environment": "STAGING", "cluster_spec": {}});
    let create = harness.post(&format!("{CLUSTERS}?request_id=r"), &body).header("Idempotency-Key", "k");
    let response = create.send().await.unwrap();
    assert_eq!(response.headers()["muster-action-id"], "action-1");
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    let cluster: Value = response.json().await.unwrap();
    let owner = json!({"scheme": "tokens", "id": "bob", "name": "bob"});
    let expected = json!({
        "name": "c", "namespace": "ns", "environment": 2, "clusterSpec": {}, "owner": owner, "statusReason": "kr",
    });
    assert_eq!(cluster, expected);
}

#[tokio::test]
async fn a_refusal_has_code_message_error_and_details() {
    let harness = Harness::new().await;
    let (status, body) = answer(harness.post(CLUSTERS, &json!({"name": "taken"}))).await;
    assert_eq!(status, 409);
    let detail = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "ClusterNameTaken", "domain": "muster.dev",
    });
    let message = "the name taken is taken";
    assert_eq!(body, json!({"code": 6, "message": message, "error": message, "details": [detail]}));
}

#[rstest]
#[case("nothing", 404, 5)]
#[case("old", 410, 9)]
#[case("slow", 504, 4)]
#[tokio::test]
async fn a_refusal_has_its_status(#[case] name: &str, #[case] http: u16, #[case] grpc: i32) {
    let harness = Harness::new().await;
    let response = harness.get(&format!("{CLUSTERS}/{name}")).send().await.unwrap();
    assert_eq!(response.status().as_u16(), http);
    assert_eq!(response.headers().contains_key("muster-action-id"), name == "slow");
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["code"], grpc);
}

#[tokio::test]
async fn an_empty_list_has_its_array_and_nothing_else() {
    let harness = Harness::new().await;
    let list = |path: &'static str| answer(harness.get(path));
    assert_eq!(list("/apis/v1alpha2/clusters").await, (200, json!({"clusters": []})));
    assert_eq!(list("/apis/v1alpha2/actions").await, (200, json!({"actions": []})));
    let counted = list("/apis/v1alpha2/namespaces/ns/clusters?with_total=true").await;
    assert_eq!(counted, (200, json!({"clusters": [], "totalSize": 0})));
    let full = list("/apis/v1alpha2/namespaces/ns/clusters?label=a%3Db&label=c&pageSize=7&withTotal=1").await;
    let clusters = json!([{"name": "a=b", "namespace": "ns"}, {"name": "c", "namespace": "ns"}]);
    assert_eq!(full, (200, json!({"clusters": clusters, "totalSize": 7})));
}

#[tokio::test]
async fn other_ways_to_a_method_work_too() {
    let harness = Harness::new().await;
    assert_eq!(answer(harness.get("/apis/v1alpha2/clusters/some-id")).await, (200, json!({"id": "some-id"})));
    let escaped = answer(harness.get(&format!("{CLUSTERS}/a%20b"))).await;
    assert_eq!(escaped, (200, json!({"name": "a b", "namespace": "ns"})));
}

#[tokio::test]
async fn a_body_may_be_left_out_and_must_not_contradict_the_path() {
    let harness = Harness::new().await;
    let restart = format!("{CLUSTERS}/c/restart_head");
    let (status, cluster) = answer(harness.request(Method::POST, &restart)).await;
    assert_eq!((status, cluster), (200, json!({"name": "c", "namespace": "ns"})));
    let (status, body) = answer(harness.post(&format!("{CLUSTERS}/c/scale"), &json!({"name": "d"}))).await;
    assert_eq!((status, body["code"].as_i64()), (400, Some(3)));
    let (status, body) =
        answer(harness.post(&format!("{CLUSTERS}/c/scale"), &json!({"replicas": "0"}))).await;
    assert_eq!((status, body), (200, json!({"name": "c", "namespace": "ns"})));
    assert_eq!(answer(harness.request(Method::DELETE, &format!("{CLUSTERS}/c"))).await, (200, json!({})));
}

#[tokio::test]
async fn a_patch_changes_what_the_mask_or_the_body_names() {
    let harness = Harness::new().await;
    let patch = |query: &str| {
        let path = format!("{CLUSTERS}/c{query}");
        answer(
            harness.request(Method::PATCH, &path).json(&json!({"labels": {"a": "b"}, "idleTimeout": "1h"})),
        )
    };
    let (_, cluster) = patch("").await;
    assert_eq!(cluster["statusReason"], "idle_timeout labels");
    assert_eq!(cluster["idleTimeout"], "3600s");
    let (_, cluster) = patch("?updateMask=labels,maxLifetime").await;
    assert_eq!(cluster["statusReason"], "labels maxLifetime", "the core API reads both spellings");
}

#[rstest]
#[case("{", "application/json", 400, "the body is not JSON")]
#[case("null", "application/json", 400, "the body is null")]
#[case("[]", "application/json; charset=utf-8", 400, "the body is an array")]
#[case(
    r#"{"clusterSpec": 5}"#,
    "application/merge-patch+json",
    400,
    "cluster.clusterSpec is 5: an object is expected"
)]
#[case(
    r#"{"cluster_spec": {"worker_group_spec": [{"replicas": "many"}]}}"#,
    "application/json",
    400,
    "cluster.cluster_spec.worker_group_spec[0].replicas is \"many\": a whole number from -2147483648 to 2147483647 is expected"
)]
#[case(
    r#"{"cluster_spec": {"worker_group_spec": [{"replicas": 1.5}]}}"#,
    "application/json",
    400,
    "worker_group_spec[0].replicas is 1.5: a whole number"
)]
#[case(
    r#"{"cluster_spec": {"worker_group_spec": [{"replicas": 99999999999}]}}"#,
    "application/json",
    400,
    "worker_group_spec[0].replicas is 99999999999: a whole number from -2147483648 to 2147483647 is expected"
)]
#[case(
    r#"{"cluster_spec": {"worker_group_spec": {"replicas": 1}}}"#,
    "application/json",
    400,
    "cluster.cluster_spec.worker_group_spec is {\"replicas\":1}: an array is expected"
)]
#[case(r#"{"labels": {"a": 1}}"#, "application/json", 400, "cluster.labels.a is 1: text is expected")]
#[case(r#"{"labels": ["a"]}"#, "application/json", 400, "cluster.labels is [\"a\"]: an object is expected")]
#[case(r#"{"name": 7}"#, "application/json", 400, "cluster.name is 7: text is expected")]
#[case(r#"{"ephemeral": "yes"}"#, "application/json", 400, "cluster.ephemeral is \"yes\": true or false")]
#[case(r#"{"timeout": 5}"#, "application/json", 400, "cluster.timeout is 5: a duration such as 30s or 10m")]
#[case(r#"{"timeout": "soon"}"#, "application/json", 400, "cluster.timeout is \"soon\": a duration such as")]
#[case(r#"{"environment": {}}"#, "application/json", 400, "cluster.environment is {}: one of DEV, TESTING")]
#[case(r#"{"profile_properties": 1}"#, "application/json", 400, "cluster.profile_properties is 1: an object")]
#[case(r#"{"a": 1,}"#, "application/json", 400, "the body is not JSON: see line 1, column 9")]
#[case("{}", "text/plain", 415, "'text/plain'")]
#[case("{}", "", 415, "must be application/json")]
#[case("a=b", "application/x-www-form-urlencoded", 415, "must be application/json")]
#[tokio::test]
async fn a_bad_body_is_refused_with_a_message(
    #[case] body: &'static str,
    #[case] content_type: &str,
    #[case] http: u16,
    #[case] expected: &str,
) {
    let harness = Harness::new().await;
    let mut request = harness.request(Method::POST, CLUSTERS).body(body);
    if !content_type.is_empty() {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    let (status, body) = answer(request).await;
    assert_eq!((status, body["code"].as_i64()), (http, Some(3)), "{body}");
    assert!(body["message"].as_str().unwrap().contains(expected), "{body}");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let harness = Harness::new().await;
    let name = "x".repeat(BODY_LIMIT);
    let (status, body) = answer(harness.post(CLUSTERS, &json!({"name": name}))).await;
    assert_eq!(status, 413);
    assert!(body["message"].as_str().unwrap().contains("1048576 bytes"), "{body}");
}

#[tokio::test]
async fn a_bad_parameter_is_named_with_its_value() {
    let harness = Harness::new().await;
    let (status, body) = answer(harness.get(&format!("{CLUSTERS}?page_size=lots"))).await;
    assert_eq!(status, 400);
    assert!(body["message"].as_str().unwrap().contains("page_size is 'lots'"), "{body}");
}

#[rstest]
#[case(Method::GET, "/apis/v1alpha2/nothing", 404, 5)]
#[case(Method::GET, "/", 404, 5)]
#[case(Method::PUT, CLUSTERS, 501, 12)]
#[case(Method::POST, "/apis/v1alpha2/clusters", 501, 12)]
#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_json(
    #[case] method: Method,
    #[case] path: &str,
    #[case] http: u16,
    #[case] grpc: i64,
) {
    let harness = Harness::new().await;
    let (status, body) = answer(harness.request(method, path)).await;
    assert_eq!((status, body["code"].as_i64()), (http, Some(grpc)));
    assert_eq!(body["message"], body["error"]);
}

#[tokio::test]
async fn a_wrong_method_is_answered_with_those_that_are_possible() {
    let harness = Harness::new().await;
    let allowed = async |method: Method, path: &str| {
        let response = harness.request(method, path).send().await.unwrap();
        assert_eq!(response.status(), 501);
        assert_eq!(response.headers()["muster-error"], "MethodNotAllowed");
        let allow = response.headers()[header::ALLOW].to_str().unwrap();
        let mut allow: Vec<String> = allow.split(',').map(str::to_owned).collect();
        allow.sort_unstable();
        let body: Value = response.json().await.unwrap();
        (allow, body["message"].as_str().unwrap().to_owned())
    };
    let (allow, message) = allowed(Method::PUT, CLUSTERS).await;
    assert_eq!(allow, ["GET", "HEAD", "POST"]);
    assert_eq!(message, format!("PUT is not allowed on {CLUSTERS}: use GET or POST"));
    let (allow, message) = allowed(Method::OPTIONS, &format!("{CLUSTERS}/c/scale")).await;
    assert_eq!(allow, ["POST"]);
    assert_eq!(message, format!("OPTIONS is not allowed on {CLUSTERS}/c/scale: use POST"));
}

#[rstest]
#[case(Method::POST, "", json!({"name": "c", "workers": 2}), "'cluster.workers' is not known: use one of name")]
#[case(Method::POST, "?waitfor=reached", json!({"name": "c"}), "'waitfor' is not known: did you mean 'wait_for'?")]
#[case(Method::POST, "", json!({"name": "c", "statusreason": ""}), "did you mean 'status_reason'?")]
#[case(Method::POST, "", json!({"cluster_spec": {}, "clusterSpec": {}}), "'cluster.cluster_spec' twice")]
#[case(Method::POST, "/c/scale", json!({"replcas": 2}), "'replcas' is not known: did you mean 'replicas'?")]
#[case(Method::PATCH, "/c", json!({"cluster_spec": {"worker_group_spec": [{"shape": {"resources": {}}}]}}),
    "'cluster.cluster_spec.worker_group_spec[0].shape.resources' is not known")]
#[case(Method::DELETE, "/c", json!({"forced": true}), "'forced' is not known: did you mean 'force'?")]
#[case(Method::GET, "?page=5", json!({}), "'page' is not known")]
#[tokio::test]
async fn unknown_fields_and_parameters_are_refused(
    #[case] method: Method,
    #[case] path: &str,
    #[case] body: Value,
    #[case] expected: &str,
) {
    let harness = Harness::new().await;
    let (status, body) = answer(harness.request(method, &format!("{CLUSTERS}{path}")).json(&body)).await;
    assert_eq!((status, body["code"].as_i64()), (400, Some(3)), "{body}");
    assert!(body["message"].as_str().unwrap().contains(expected), "{body}");
}

#[tokio::test]
async fn a_list_with_watch_false_is_a_plain_list() {
    let harness = Harness::new().await;
    assert_eq!(answer(harness.get(&format!("{CLUSTERS}?watch=false"))).await, (200, json!({"clusters": []})));
}

#[tokio::test]
async fn on_v1_a_refusal_has_no_keys_of_our_own() {
    let harness = Harness::new().await;
    let (status, body) = answer(harness.get("/apis/v1/namespaces/ns/jobs")).await;
    assert_eq!(status, 404);
    assert_eq!(body, json!({"code": 5, "message": "no resource at /apis/v1/namespaces/ns/jobs: see /docs"}));
}

#[tokio::test]
async fn foreign_names_and_pages_are_refused_but_probes_pass() {
    let harness = Harness::new().await;
    let whoami = || harness.get("/apis/v1alpha2/admin/whoami");
    assert_eq!(answer(whoami().header(header::HOST, "evil.example")).await.0, 403);
    assert_eq!(answer(whoami().header(header::ORIGIN, "http://evil.example")).await.0, 403);
    assert_eq!(answer(whoami().header(header::ORIGIN, harness.http.as_str())).await.0, 200);
    let probe = harness.anonymous(Method::GET, "/healthz").header(header::HOST, "10.0.0.7:8888");
    assert_eq!(answer(probe).await.0, 404, "it gets through to the routes, which have none in this test");
}
