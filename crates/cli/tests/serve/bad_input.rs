//! Bad input is refused with the value and the rule, the right status, and without partial effects.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{Server, cluster, slow_cluster};

const CLUSTERS: &str = "/namespaces/demo/clusters";

fn with(changes: &[(&str, Value)]) -> Value {
    let mut body = cluster("fred", 1);
    for (pointer, value) in changes {
        match body.pointer_mut(pointer) {
            Some(place) => *place = value.clone(),
            None => body[pointer.trim_start_matches('/')] = value.clone(),
        }
    }
    body
}

#[tokio::test]
async fn invalid_creations_are_refused_with_the_reason() {
    let server = Server::dev().await;
    let group = "/cluster_spec/worker_group_spec/0";
    let cases: Vec<(Value, &str)> = vec![
        (json!({}), "Cluster name is empty. Please specify a valid value."),
        (
            with(&[(group, json!({"group_name": "default", "shape": {"cpu": "0"}}))]),
            "shape of group 'default': cpu is 0: must be greater than 0",
        ),
        (
            with(&[(group, json!({"group_name": "default", "shape": {"memory": "1"}}))]),
            "shape of group 'default': memory is 1: must be at least 1Mi",
        ),
        (
            with(&[(group, json!({"group_name": "default", "compute_template": "big"}))]),
            "compute template 'big' not found in namespace 'demo': create it first, or give a shape",
        ),
        (
            with(&[("/cluster_spec", json!({"head_group_spec": {"image_template": "fat"}}))]),
            "image_template 'fat' of head_group_spec is for clusters of a framework: leave it out",
        ),
        (with(&[("/name", json!("Bad_Name"))]), "cluster name is 'Bad_Name': must have lowercase letters"),
        (with(&[("/name", json!("a".repeat(54)))]), "at most 53 characters"),
        (
            with(&[("/namespace", json!("other"))]),
            "the namespace of the request is 'demo' and that of its object 'other'",
        ),
        (
            with(&[("/profile", json!("nonsense"))]),
            "'nonsense' is not a profile type: must be a name and a version",
        ),
        (
            with(&[("/profile", json!("kubernetes.pod-1.0"))]),
            "no provider supports type kubernetes.pod-1.0: use one of ",
        ),
        (
            with(&[("/profile", json!("")), ("/framework", json!("flink"))]),
            "'flink' is not a framework: must be ray, dask or spark",
        ),
        (with(&[("/profile_properties", json!({"bogus": 1}))]), "Unrecognizable spec item 'bogus'"),
        (
            with(&[(&format!("{group}/replicas"), json!(-1))]),
            "replicas of group 'small' is -1: must be 0 or greater",
        ),
        (
            with(&[(&format!("{group}/replicas"), json!(10_001))]),
            "the cluster would have 10001 workers: must be at most 1000",
        ),
        (
            with(&[(&format!("{group}/group_name"), json!("Large Ones"))]),
            "group_name is 'Large Ones': must have lowercase letters",
        ),
        (with(&[("/labels", json!({"a": "\u{0}"}))]), "label \"\\0\" has control characters"),
        (with(&[("/user", json!("a\nb"))]), "user \"a\\nb\" has control characters"),
        (with(&[("/timeout", json!("-5s"))]), "timeout is -5s: must be from 1s to 30d"),
        (with(&[("/timeout", json!("0s"))]), "timeout is 0s: must be from 1s to 30d"),
        (with(&[("/timeout", json!("31d"))]), "timeout is 2678400s: must be from 1s to 30d"),
        (with(&[("/idle_timeout", json!("-1s"))]), "idle_timeout is -1s: must be from 1s to 3650d"),
        (with(&[("/max_lifetime", json!("0s"))]), "max_lifetime is 0s: must be from 1s to 3650d"),
        (
            with(&[("/framework", json!("flink"))]),
            "framework: 'flink' is not a framework: must be ray, dask or spark",
        ),
        (
            with(&[("/framework", json!("dask"))]),
            "framework is 'dask', and profile 'simulated.node-1.0' is not a type of that framework: leave one of them out",
        ),
        (with(&[("/provider", json!("moon"))]), "provider 'moon' not found: use one of local, simulated"),
        (
            with(&[("/provider", json!("simulated")), ("/profile", json!("dask.cluster-1.0"))]),
            "provider 'simulated' does not support type dask.cluster-1.0: use another provider, or one of simulated.node-1.0",
        ),
        (
            with(&[(&format!("{group}/replicas"), json!(1.5))]),
            "cluster_spec.worker_group_spec[0].replicas is 1.5: a whole number",
        ),
    ];
    for (body, sentence) in cases {
        let (status, _, printed) = server.refusal(Method::POST, CLUSTERS, Some(body.clone())).await;
        assert_eq!(status, 400, "{body}: {printed}");
        assert!(printed.contains(sentence), "{body}: {printed}");
    }
    let left = server.get("/clusters?deleted=include").await;
    assert_eq!(left["clusters"], json!([]), "something was half-made");
    assert_eq!(server.get("/actions").await["actions"], json!([]));
}

#[tokio::test]
async fn values_out_of_bounds_are_refused_with_the_bound() {
    let server = Server::dev().await;
    let mut body = cluster("fred", 2);
    body["cluster_spec"]["worker_group_spec"][0]["max_replicas"] = json!(3);
    body["cluster_spec"]["worker_group_spec"][0]["min_replicas"] = json!(1);
    server.post(&format!("{CLUSTERS}?wait_for=reached"), body).await;
    let scale = |replicas: i64| {
        server.refusal(
            Method::POST,
            "/namespaces/demo/clusters/fred/scale",
            Some(json!({"replicas": replicas})),
        )
    };
    let (status, word, printed) = scale(4).await;
    assert_eq!((status, word.as_str()), (400, "OutOfBounds"));
    assert_eq!(
        printed,
        "replicas of group 'small' is 4: must be at most max_replicas (3); lower replicas or raise max_replicas"
    );
    assert_eq!(
        scale(0).await.2,
        "replicas of group 'small' is 0: must be at least min_replicas (1); raise replicas or lower min_replicas"
    );
    assert_eq!(scale(-1).await.2, "replicas is -1: must be 0 or greater");
    let nothing = server.refusal(Method::POST, "/namespaces/demo/clusters/fred/scale", Some(json!({}))).await;
    assert_eq!(nothing.2, "replicas is missing: give the number of workers");
    let no_head =
        server.refusal(Method::POST, "/namespaces/demo/clusters/fred/restart_head", Some(json!({}))).await;
    assert_eq!(no_head.2, "clusters of type simulated.node-1.0 have no head to restart");
}

#[tokio::test]
async fn a_wait_has_its_limits() {
    let server = Server::dev().await;
    server.post(CLUSTERS, slow_cluster("slow", 1, 3600)).await;
    let scale = |query: &str| {
        let path = format!("{CLUSTERS}/slow/scale?{query}");
        let server = &server;
        async move { server.refusal(Method::POST, &path, Some(json!({"replicas": 2}))).await }
    };
    let bad = [
        ("wait_timeout=-1s", "wait_timeout is -1s: must be from 0s to 1h"),
        ("wait_timeout=3601s", "wait_timeout is 3601s: must be from 0s to 1h"),
        ("wait_timeout=99999999999999d", "wait_timeout is 8639999999999913600s: must be from 0s to 1h"),
        ("wait_timeout=999999999999999d", "wait_timeout is '999999999999999d': a duration such as 30s"),
        ("wait_for=lunch", "wait_for: 'lunch' is not a milestone: must be accepted, applied or reached"),
    ];
    for (query, sentence) in bad {
        let (status, _, printed) = scale(query).await;
        assert_eq!(status, 400, "{query}: {printed}");
        assert!(printed.contains(sentence), "{query}: {printed}");
    }
    assert_eq!(server.get("/actions?action=CLUSTER_RESIZE").await["actions"], json!([]), "it was accepted");
    let (status, _, printed) = scale("wait_for=reached&wait_timeout=0s").await;
    assert_eq!(status, 504, "{printed}");
    assert!(
        printed.contains("has not been reached yet, and wait_timeout is 0s; it continues as action "),
        "{printed}"
    );
    let (status, _, printed) = scale("wait_for=reached&wait_timeout=0.05s").await;
    assert_eq!(status, 504, "{printed}");
    assert!(printed.contains("has not been reached within 0.05s; it continues as action "), "{printed}");
}

#[tokio::test]
async fn a_name_that_is_taken_is_409_and_free_again_after_the_delete() {
    let server = Server::dev().await;
    server.create("fred", 1).await;
    let (status, word, printed) = server.refusal(Method::POST, CLUSTERS, Some(cluster("fred", 1))).await;
    assert_eq!((status, word.as_str()), (409, "ClusterNameTaken"));
    let sentence =
        "cluster 'fred' already exists in namespace 'demo': choose another name, or delete it first";
    assert_eq!(printed, sentence);
    server.call(Method::DELETE, "/namespaces/demo/clusters/fred?wait_for=reached", None).await;
    server.create("fred", 1).await;
}

#[tokio::test]
async fn a_quota_is_403() {
    let server = Server::start(&["--dev", "--max-clusters-per-project", "1"]).await;
    server.create("first", 0).await;
    let (status, word, printed) = server.refusal(Method::POST, CLUSTERS, Some(cluster("second", 0))).await;
    assert_eq!((status, word.as_str()), (403, "QuotaExceeded"));
    assert!(printed.contains("project 'demo' has 1 clusters, and may have 1"), "{printed}");
}

#[tokio::test]
async fn a_repeated_request_is_executed_once() {
    let server = Server::dev().await;
    let path = format!("{CLUSTERS}?wait_for=reached&request_id=r1");
    let first = server.call(Method::POST, &path, Some(cluster("fred", 1))).await;
    let again = server.call(Method::POST, &path, Some(cluster("fred", 1))).await;
    assert_eq!((first.status(), again.status()), (StatusCode::OK, StatusCode::OK));
    assert_eq!(first.headers()["muster-action-id"], again.headers()["muster-action-id"]);
    let (status, word, _) = server.refusal(Method::POST, &path, Some(cluster("other", 1))).await;
    assert_eq!((status, word.as_str()), (422, "RequestIdReused"));
    let path = "/namespaces/demo/clusters/fred?wait_for=reached&request_id=r2";
    let first = server.call(Method::DELETE, path, None).await;
    let again = server.call(Method::DELETE, path, None).await;
    assert_eq!(
        (first.status(), again.status()),
        (StatusCode::OK, StatusCode::OK),
        "the second found no cluster"
    );
}

#[tokio::test]
async fn an_accepted_creation_is_answered_again_even_if_it_would_be_refused_now() {
    let server = Server::dev().await;
    let path = format!("{CLUSTERS}?wait_for=reached&request_id=r1");
    let first = server.post(&path, cluster("fred", 2)).await;
    let server = server.start_again_with(&["--dev", "--max-nodes-per-cluster", "1"]).await;
    assert_eq!(server.refusal(Method::POST, CLUSTERS, Some(cluster("other", 2))).await.0, 400);
    let again = server.post(&path, cluster("fred", 2)).await;
    assert_eq!(first["id"], again["id"]);
}

#[tokio::test]
async fn a_failing_profile_fails_the_action_and_says_why() {
    let server = Server::dev().await;
    let mut body = cluster("fred", 2);
    body["profile_properties"] = json!({"metadata": {"simulated_failure": "create"}});
    let (status, word, printed) =
        server.refusal(Method::POST, &format!("{CLUSTERS}?wait_for=reached"), Some(body)).await;
    assert_eq!((status, word.as_str()), (400, "ActionFailed"));
    assert!(printed.contains("creation fails"), "{printed}");
    let row = server.get("/namespaces/demo/clusters/fred").await;
    assert_eq!(row["state"], "WARNING");
    assert!(row["statusReason"].as_str().unwrap().contains("creation fails"), "{row}");
}

#[tokio::test]
async fn an_update_changes_only_the_named_fields() {
    let server = Server::dev().await;
    server.create("fred", 4).await;
    let fred = "/namespaces/demo/clusters/fred";
    let bounds = json!({"cluster_spec": {"worker_group_spec": [{"group_name": "small", "max_replicas": 9}]}});
    let patched = server.call(Method::PATCH, &format!("{fred}?wait_for=reached"), Some(bounds)).await;
    assert_eq!(patched.status(), StatusCode::OK);
    let row = server.get(fred).await;
    let group = &row["clusterSpec"]["workerGroupSpec"][0];
    assert_eq!((row["readyWorkers"].as_i64(), group["maxReplicas"].as_i64()), (Some(4), Some(9)), "{row}");
    let none = json!({"cluster_spec": {"worker_group_spec": [{"group_name": "small", "replicas": 0}]}});
    let patched = server.call(Method::PATCH, &format!("{fred}?wait_for=reached"), Some(none)).await;
    assert_eq!(patched.status(), StatusCode::OK);
    let row = server.get(fred).await;
    assert_eq!(row["desiredWorkers"].as_i64().unwrap_or(0), 0, "0 is given, too: {row}");
    let many = json!({"cluster_spec": {"worker_group_spec": [{"group_name": "small", "replicas": 15_000, "max_replicas": 20_000}]}});
    let (status, word, printed) = server.refusal(Method::PATCH, fred, Some(many)).await;
    assert_eq!((status, word.as_str()), (400, "OutOfBounds"), "{printed}");
    let path = format!("{fred}?update_mask=cluster_spec.head_group_spec.image");
    let head = json!({"cluster_spec": {"head_group_spec": {"image": "x"}}});
    let (status, _, printed) = server.refusal(Method::PATCH, &path, Some(head)).await;
    assert_eq!(status, 400, "{printed}");
    assert!(
        printed.starts_with("nodes of type simulated.node-1.0 are created from their profile"),
        "{printed}"
    );
    let (status, _, printed) = server.refusal(Method::PATCH, fred, Some(json!({"envs": {"A": "1"}}))).await;
    assert_eq!(status, 400, "{printed}");
}

#[tokio::test]
async fn concurrent_deletions_both_succeed() {
    let server = Server::dev().await;
    server.create("fred", 200).await;
    let path = "/namespaces/demo/clusters/fred?wait_for=reached";
    let deletes = futures::future::join_all((0..3).map(|_| server.call(Method::DELETE, path, None))).await;
    let statuses: Vec<u16> = deletes.iter().map(|answer| answer.status().as_u16()).collect();
    assert!(
        statuses.iter().all(|status| [200, 404].contains(status)) && statuses.contains(&200),
        "{statuses:?}"
    );
    let (status, _, printed) = server.refusal(Method::GET, "/namespaces/demo/clusters/fred", None).await;
    assert_eq!(status, 404, "{printed}");
    let deletions = server.get("/actions?action=CLUSTER_DELETE").await;
    let ended: Vec<&Value> =
        deletions["actions"].as_array().into_iter().flatten().map(|action| &action["status"]).collect();
    assert_eq!(ended, ["SUCCEEDED"], "one deletion for all of them: {deletions}");
}

#[tokio::test]
async fn a_request_id_is_independent_of_the_wait_and_has_a_maximum_length() {
    let server = Server::dev().await;
    let create = |query: &str| format!("{CLUSTERS}?request_id=r1&{query}");
    let first = server.post(&create("wait_for=accepted"), cluster("fred", 1)).await;
    let again = server.post(&create("wait_for=reached&wait_timeout=20s"), cluster("fred", 1)).await;
    assert_eq!(first["id"], again["id"]);
    let long = format!("{CLUSTERS}?request_id={}", "x".repeat(256));
    let (status, _, printed) = server.refusal(Method::POST, &long, Some(cluster("long", 1))).await;
    assert_eq!(status, 400, "{printed}");
    assert!(printed.contains("at most 255 printable ASCII characters"), "{printed}");
}

#[tokio::test]
async fn a_request_with_contradicting_id_and_path_changes_nothing() {
    let server = Server::dev().await;
    let one = server.post(&format!("{CLUSTERS}?wait_for=reached"), cluster("one", 1)).await;
    server.post(&format!("{CLUSTERS}?wait_for=reached"), cluster("two", 1)).await;
    let id = one["id"].as_str().expect("an id");
    let (status, _, printed) = server.refusal(Method::DELETE, &format!("{CLUSTERS}/two?id={id}"), None).await;
    assert_eq!(status, 400, "{printed}");
    assert!(printed.starts_with("id is that of 'one' in namespace 'demo'"), "{printed}");
    for name in ["one", "two"] {
        assert_eq!(server.get(&format!("{CLUSTERS}/{name}")).await["state"], "ACTIVE");
    }
    assert_eq!(server.get(&format!("/namespaces/-/clusters/-?id={id}")).await["name"], "one");
}
