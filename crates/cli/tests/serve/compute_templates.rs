//! Compute templates on a server without Kubernetes.

use reqwest::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::{Server, cluster};

const TEMPLATES: &str = "/namespaces/demo/compute_templates";

fn small() -> Value {
    json!({"name": "small", "cpu": 2, "memory": 4})
}

/// Returns the names in a list of templates.
fn names(list: &Value) -> Vec<&str> {
    let templates = list["computeTemplates"].as_array().expect("a list has its array");
    templates.iter().map(|template| template["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn a_template_is_created_shown_listed_and_deleted() {
    let server = Server::dev().await;
    assert_eq!(server.get(TEMPLATES).await["computeTemplates"], json!([]));
    let mut created = server.post(TEMPLATES, small()).await;
    assert_eq!(server.get(&format!("{TEMPLATES}/small")).await, created);
    assert!(created["createdAt"].take().is_string());
    let expected = json!({"name": "small", "namespace": "demo", "cpu": 2, "memory": 4, "memoryUnit": "Gi",
                          "createdAt": null});
    assert_eq!(created, expected);

    let big = json!({
        "name": "big", "namespace": "demo", "cpu": 8, "memory": 512, "memoryUnit": "Mi", "gpu": 1,
        "gpuAccelerator": "amd.com/gpu", "extendedResources": {"a.com/x": 2},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
    });
    let mut created = server.post("/compute_templates", big.clone()).await;
    assert!(created.as_object_mut().expect("an object").remove("createdAt").is_some());
    assert_eq!(created, big);
    assert_eq!(names(&server.get(TEMPLATES).await), ["big", "small"]);
    assert_eq!(names(&server.get("/compute_templates?sort_by=-name").await), ["small", "big"]);
    assert_eq!(names(&server.get("/compute_templates?name_prefix=b").await), ["big"]);
    assert_eq!(names(&server.get("/namespaces/other/compute_templates").await), [""; 0]);

    let first = server.get(&format!("{TEMPLATES}?page_size=1&with_total=true")).await;
    assert_eq!((names(&first), &first["totalSize"]), (vec!["big"], &json!(2)));
    let token = first["nextPageToken"].as_str().expect("there is more");
    let second = server.get(&format!("{TEMPLATES}?page_size=1&page_token={token}")).await;
    assert_eq!(names(&second), ["small"]);

    let path = format!("{TEMPLATES}/small");
    assert_eq!(server.call(Method::DELETE, &path, None).await.status(), StatusCode::OK);
    for method in [Method::GET, Method::DELETE] {
        let (status, _, message) = server.refusal(method, &path, None).await;
        assert_eq!((status, message.as_str()), (404, "Compute template small not found in namespace demo"));
    }
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer() {
    let server = Server::dev().await;
    let body = json!({"name": "small", "cpu": 2, "memory": 4, "requestId": "one", "waitFor": "reached"});
    let created = server.post(TEMPLATES, body.clone()).await;
    assert_eq!(server.post(TEMPLATES, body).await, created);
    let by_query = server.post(&format!("{TEMPLATES}?request_id=one&wait_timeout=5s"), small()).await;
    assert_eq!(by_query, created);
    let by_header =
        reqwest::Client::new().post(server.url(TEMPLATES)).header("Idempotency-Key", "one").json(&small());
    assert_eq!(by_header.send().await.expect("an answer").json::<Value>().await.expect("JSON"), created);

    let other = json!({"name": "small", "cpu": 3, "memory": 4, "request_id": "one"});
    let (status, code, _) = server.refusal(Method::POST, TEMPLATES, Some(other)).await;
    assert_eq!((status, code.as_str()), (422, "RequestIdReused"));
    let wrong = json!({"name": "big", "cpu": 3, "memory": 4, "wait_for": "soon"});
    let (status, _, message) = server.refusal(Method::POST, TEMPLATES, Some(wrong)).await;
    assert!(status == 400 && message.contains("'soon' is not a milestone"), "{status} {message}");

    let path = format!("{TEMPLATES}/small?request_id=two");
    for _ in 0..2 {
        assert_eq!(server.call(Method::DELETE, &path, None).await.status(), StatusCode::OK);
    }
    let (status, ..) = server.refusal(Method::DELETE, &format!("{TEMPLATES}/small"), None).await;
    assert_eq!(status, 404);
}

#[rstest]
#[case::no_name(json!({"cpu": 1, "memory": 1}), 400, "Compute template name is empty")]
#[case::bad_name(json!({"name": "A b", "cpu": 1, "memory": 1}), 400, "compute template name is 'A b'")]
#[case::no_cpu(json!({"name": "a", "memory": 1}), 400, "Cpu amount is zero")]
#[case::no_memory(json!({"name": "a", "cpu": 1}), 400, "Memory amount is zero")]
#[case::bad_unit(json!({"name": "a", "cpu": 1, "memory": 4, "memoryUnit": "Foo"}), 400, "invalid memory quantity \"4Foo\"")]
#[case::negative(json!({"name": "a", "cpu": -1, "memory": 1}), 400, "cpu")]
#[case::misspelt(json!({"name": "a", "cpus": 1, "memory": 1}), 400, "cpus")]
#[case::elsewhere(json!({"name": "a", "namespace": "other", "cpu": 1, "memory": 1}), 400, "that of its object 'other'")]
#[case::taken(small(), 409, "Compute template with name small already exists in namespace demo")]
#[tokio::test]
async fn an_invalid_template_is_refused(#[case] body: Value, #[case] status: u16, #[case] why: &str) {
    let server = Server::dev().await;
    server.post(TEMPLATES, small()).await;
    let (refused, _, message) = server.refusal(Method::POST, TEMPLATES, Some(body)).await;
    assert_eq!(refused, status, "{message}");
    assert!(message.contains(why), "{message}");
    assert_eq!(names(&server.get(TEMPLATES).await), ["small"]);
}

#[tokio::test]
async fn a_cluster_gets_the_shape_of_its_template_which_is_then_in_use() {
    let server = Server::dev().await;
    server.post(TEMPLATES, small()).await;
    let mut fred = cluster("fred", 1);
    fred["cluster_spec"]["worker_group_spec"][0]["compute_template"] = "small".into();
    let made = server.post("/namespaces/demo/clusters?wait_for=reached", fred).await;
    let group = &made["clusterSpec"]["workerGroupSpec"][0];
    assert_eq!(
        (&group["computeTemplate"], &group["shape"]),
        (&json!("small"), &json!({"cpu": "2", "memory": "4Gi"}))
    );

    let path = format!("{TEMPLATES}/small");
    let (status, reason, message) = server.refusal(Method::DELETE, &path, None).await;
    assert_eq!((status, reason.as_str()), (409, "ComputeTemplateInUse"));
    assert!(message.contains("is used by cluster fred"), "{message}");
    let forced = server.call(Method::DELETE, &format!("{path}?force=true"), None).await;
    assert_eq!(forced.status(), StatusCode::OK);
    let kept = server.get("/namespaces/demo/clusters/fred").await;
    assert_eq!(kept["clusterSpec"]["workerGroupSpec"][0]["shape"], json!({"cpu": "2", "memory": "4Gi"}));
}

#[tokio::test]
async fn changes_of_templates_are_events() {
    let server = Server::dev().await;
    server.post(TEMPLATES, small()).await;
    server.call(Method::DELETE, &format!("{TEMPLATES}/small"), None).await;
    let path = "/clustering/v1/events?oid=demo/small&sort=timestamp&global_project=true";
    let events: Value = server.call_at(Method::GET, path, None).await.json().await.expect("JSON");
    let events = events["events"].as_array().expect("a list");
    let written: Vec<&Value> = events.iter().map(|event| &event["action"]).collect();
    assert_eq!(written, ["ComputeTemplateCreated", "ComputeTemplateDeleted"]);
    let has_id: Vec<bool> = events.iter().map(|event| event["meta_data"]["request_id"].is_string()).collect();
    assert_eq!(has_id, [true, true], "{events:?}");
}

#[tokio::test]
async fn clients_of_the_kuberay_api_server_find_their_templates() {
    let server = Server::dev().await;
    let templates = "/apis/v1/namespaces/demo/compute_templates";
    let call = async |method: Method, path: &str, body: Option<Value>| {
        let response = server.call_at(method, path, body).await;
        let status = response.status().as_u16();
        (status, response.json::<Value>().await.expect("JSON"))
    };
    let mut body = small();
    body["unknown field"] = "is ignored".into();
    let (status, refused) = call(Method::POST, templates, Some(body.clone())).await;
    let message =
        "The namespace in the request is different from the namespace defined in the compute template.";
    assert_eq!((status, refused), (400, json!({"code": 3, "message": message})));
    body["namespace"] = "demo".into();
    let shown = json!({"name": "small", "namespace": "demo", "cpu": 2, "memory": 4, "memoryUnit": "Gi"});
    assert_eq!(call(Method::POST, templates, Some(body.clone())).await, (200, shown.clone()));
    let (status, refused) = call(Method::POST, templates, Some(body)).await;
    let message = "Compute template with name small already exists in namespace demo";
    assert_eq!((status, refused), (409, json!({"code": 6, "message": message})));

    let path = format!("{templates}/small");
    assert_eq!(call(Method::GET, &path, None).await, (200, shown.clone()));
    let all = json!({"computeTemplates": [shown]});
    assert_eq!(call(Method::GET, templates, None).await, (200, all.clone()));
    assert_eq!(call(Method::GET, "/apis/v1/compute_templates", None).await, (200, all));
    assert_eq!(server.get(&format!("{TEMPLATES}/small")).await["cpu"], 2, "it is the same in v1alpha2");

    let mut fred = cluster("fred", 1);
    fred["cluster_spec"]["worker_group_spec"][0]["compute_template"] = "small".into();
    server.post("/namespaces/demo/clusters?wait_for=reached", fred).await;
    assert_eq!(call(Method::DELETE, &path, None).await, (200, json!({})), "although it is in use");
    let message = "Compute template small not found in namespace demo";
    assert_eq!(call(Method::GET, &path, None).await, (404, json!({"code": 5, "message": message})));
    let empty = json!({"computeTemplates": []});
    assert_eq!(call(Method::GET, templates, None).await, (200, empty));
}

#[tokio::test]
async fn commands_create_show_list_and_delete_shapes_of_a_namespace() {
    let server = Server::dev().await;
    let run = |arguments: &[&str]| {
        let output = server.muster(&[&["shape"], arguments, &["-n", "demo"]].concat());
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (good, printed) = run(&["create", "small", "cpu=2,memory=4Gi,gpu=1"]);
    assert!(good && printed.contains("small") && printed.contains("4Gi"), "{printed}");
    assert_eq!(run(&["list", "-o", "name"]), (true, "small\n".to_owned()));
    let (good, printed) = run(&["show", "small", "-o", "json"]);
    assert!(good && printed.contains("\"gpu\": 1"), "{printed}");
    let (good, printed) = run(&["create", "small", "cpu=1,memory=1Gi"]);
    assert!(!good && printed.contains("already exists"), "{printed}");
    let (good, printed) = run(&["create", "odd", "cpu=500m,memory=1Gi"]);
    assert!(!good && printed.contains("a whole number of processors"), "{printed}");

    let mut fred = cluster("fred", 1);
    fred["cluster_spec"]["worker_group_spec"][0]["shape"] = json!({"name": "small"});
    let made = server.post("/namespaces/demo/clusters?wait_for=reached", fred).await;
    let shape = &made["clusterSpec"]["workerGroupSpec"][0]["shape"];
    assert_eq!(
        shape,
        &json!({"cpu": "2", "memory": "4Gi", "gpu": 1}),
        "a name is a template of the namespace"
    );

    let (good, printed) = run(&["delete", "small"]);
    assert!(good && printed.contains("shape 'small' deleted"), "{printed}");
    let (good, printed) = run(&["show", "small"]);
    assert!(!good && printed.contains("not found"), "{printed}");
}
