//! Existing KubeRay clients on a server without Kubernetes: Ray as local processes, in the forms that they know.

use muster_proto::v1::cluster_service_client::ClusterServiceClient;
use muster_proto::v1::{
    Cluster, CreateClusterRequest, GetClusterRequest, ListAllClustersRequest, ListClustersRequest,
};
use muster_proto::v1alpha2 as newer;
use reqwest::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use tonic::Code;

use crate::fake_python::python;
use crate::server::{Server, cluster};

const CLUSTERS: &str = "/apis/v1/namespaces/demo/clusters";

fn ray(name: &str, python: &str) -> Value {
    json!({
        "name": name, "namespace": "demo", "user": "ada", "version": "9.9",
        "clusterSpec": {"headGroupSpec": {"computeTemplate": "t", "image": python, "rayStartParams": {"num-cpus": "1"}}},
    })
}

async fn server() -> Server {
    let server = Server::dev().await;
    server.post("/namespaces/demo/compute_templates", json!({"name": "t", "cpu": 1, "memory": 1})).await;
    server
}

async fn answered(server: &Server, method: Method, path: &str, body: Option<Value>) -> Value {
    let response = server.call_at(method, path, body).await;
    let (status, text) = (response.status(), response.text().await.expect("a body"));
    assert_eq!(status, StatusCode::OK, "{path}: {text}");
    serde_json::from_str(&text).expect("JSON")
}

#[tokio::test]
async fn local_clusters_of_ray_are_created_listed_by_name_shown_and_deleted() {
    let server = server().await;
    let python = python(&server);
    assert_eq!(answered(&server, Method::GET, CLUSTERS, None).await, json!({"clusters": []}));
    server.create("simulated", 0).await;
    for name in ["b", "c", "a"] {
        let created = answered(&server, Method::POST, CLUSTERS, Some(ray(name, &python))).await;
        let head = &created["clusterSpec"]["headGroupSpec"];
        assert_eq!((&created["user"], &head["environment"]), (&json!("ada"), &json!({})), "{created}");
        assert_eq!((&head["computeTemplate"], &head["image"]), (&json!("t"), &json!(python)), "{created}");
        assert!(created["createdAt"].is_string(), "{created}");
    }
    let mut token = String::new();
    for expected in ["a", "b", "c"] {
        let page =
            answered(&server, Method::GET, &format!("/apis/v1/clusters?limit=1&continue={token}"), None)
                .await;
        assert_eq!(page["clusters"].as_array().map(Vec::len), Some(1), "{page}");
        assert_eq!(page["clusters"][0]["name"], expected, "{page}");
        assert!(page["clusters"][0]["events"].as_array().is_some_and(|events| !events.is_empty()), "{page}");
        token = page["continue"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(token, "");
    let all = answered(&server, Method::GET, &format!("/apis/v1/clusters?limit={}", i64::MAX), None).await;
    assert_eq!(
        (all["clusters"].as_array().map(Vec::len), &all["continue"]),
        (Some(3), &Value::Null),
        "{all}"
    );
    let forged = server.call_at(Method::GET, "/apis/v1/clusters?continue=forged", None).await;
    let forged: Value = forged.json().await.expect("JSON");
    assert!(
        forged["message"].as_str().is_some_and(|message| message.starts_with("continue 'forged'")),
        "{forged}"
    );
    let unnamed = server.call_at(Method::GET, &format!("{CLUSTERS}/"), None).await;
    let unnamed: Value = unnamed.json().await.expect("JSON");
    assert_eq!(unnamed["message"], "Cluster name is empty. Please specify a valid value.");
    let refused = server.call_at(Method::GET, &format!("{CLUSTERS}/simulated"), None).await;
    assert_eq!(refused.status(), StatusCode::NOT_FOUND, "clusters of no framework are unknown here");
    let shown = answered(&server, Method::GET, &format!("{CLUSTERS}/a"), None).await;
    assert_eq!(shown["name"], "a");
    let deleted = answered(&server, Method::DELETE, &format!("{CLUSTERS}/a"), None).await;
    assert_eq!(deleted, json!({}));
}

fn without(path: &str) -> Value {
    let mut cluster = ray("x", "python");
    let (parent, field) = path.rsplit_once('/').expect("a path");
    cluster.pointer_mut(parent).and_then(Value::as_object_mut).expect("a parent").remove(field);
    cluster
}

fn with(path: &str, value: Value) -> Value {
    let mut cluster = without(path);
    let (parent, field) = path.rsplit_once('/').expect("a path");
    cluster.pointer_mut(parent).expect("a parent")[field] = value;
    cluster
}

const HEAD: &str = "/clusterSpec/headGroupSpec";

#[rstest]
#[case::nothing(json!({}), 400, 3, "The namespace in the request is different")]
#[case::null(Value::Null, 400, 3, "")]
#[case::list(json!([]), 400, 3, "")]
#[case::other_namespace(with("/namespace", json!("other")), 400, 3, "The namespace in the request is different")]
#[case::no_name(without("/name"), 400, 3, "Cluster name is empty.")]
#[case::bad_name(with("/name", json!("Not_A_Name")), 400, 3, "Not_A_Name")]
#[case::long_name(with("/name", json!("x".repeat(54))), 400, 3, "at most 53")]
#[case::no_user(without("/user"), 400, 3, "User who create the cluster is empty.")]
#[case::no_spec(without("/clusterSpec"), 400, 3, "A ClusterSpec object is required.")]
#[case::no_head(without(HEAD), 400, 3, "Cluster Spec Object requires HeadGroupSpec")]
#[case::no_template(without(&format!("{HEAD}/computeTemplate")), 400, 3, "HeadGroupSpec compute template is empty")]
#[case::no_parameters(without(&format!("{HEAD}/rayStartParams")), 400, 3, "HeadGroupSpec RayStartParams is empty")]
#[case::unknown_template(with(&format!("{HEAD}/computeTemplate"), json!("none")), 400, 3, "'none'")]
#[case::no_group_name(with("/clusterSpec/workerGroupSpec", json!([{}])), 400, 3, "WorkerNodeSpec 0 group name is empty")]
#[case::secret(
    with(&format!("{HEAD}/environment"), json!({"valuesFrom": {"A": {"source": 1, "name": "s", "key": "k"}}})),
    400, 3, "needs Kubernetes",
)]
#[case::autoscaling(with("/clusterSpec/enableInTreeAutoscaling", json!(true)), 400, 3, "needs Kubernetes")]
#[case::bad_volume(
    with(&format!("{HEAD}/volumes"), json!([{"name": "v", "mountPath": "/v", "volumeType": "EPHEMERAL"}])),
    400, 3, "storage for ephemeral volume is empty",
)]
#[case::wrong_type(with("/name", json!({"a": 1})), 400, 3, "")]
#[case::annotation(with("/annotations", json!({"muster.dev/user": "x"})), 400, 3, "'muster.dev/user' is reserved")]
#[tokio::test]
async fn invalid_requests_are_refused_with_a_body_that_strict_clients_decode(
    #[case] body: Value,
    #[case] status: u16,
    #[case] code: i32,
    #[case] why: &str,
) {
    let server = server().await;
    let response = server.call_at(Method::POST, CLUSTERS, Some(body)).await;
    let (refused, body) = (response.status().as_u16(), response.json::<Value>().await.expect("JSON"));
    assert_eq!((refused, &body["code"]), (status, &json!(code)), "{body}");
    assert!(body["message"].as_str().is_some_and(|message| message.contains(why)), "{body}");
    let keys: Vec<&String> = body.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["code", "message"]);
    assert_eq!(answered(&server, Method::GET, CLUSTERS, None).await["clusters"], json!([]));
}

#[rstest]
#[case::get(Method::GET, "/apis/v1/namespaces/demo/clusters/none", 404, 5)]
#[case::delete(Method::DELETE, "/apis/v1/namespaces/demo/clusters/none", 404, 5)]
#[case::token(Method::GET, "/apis/v1/clusters?continue=forged", 400, 3)]
#[case::limit(Method::GET, "/apis/v1/clusters?limit=many", 400, 3)]
#[case::no_name(Method::GET, "/apis/v1/namespaces/demo/clusters/", 400, 3)]
#[case::no_name_in_the_query(Method::GET, "/apis/v1/namespaces/demo/clusters/?name=x", 400, 3)]
#[case::deleted_without_name(Method::DELETE, "/apis/v1/namespaces/demo/clusters/", 400, 3)]
#[case::template_without_name(Method::GET, "/apis/v1/namespaces/demo/compute_templates/", 400, 3)]
#[case::template_deleted_without_name(Method::DELETE, "/apis/v1/namespaces/demo/compute_templates/", 400, 3)]
#[case::created_without_name(Method::POST, "/apis/v1/namespaces/demo/clusters/", 501, 12)]
#[case::created_without_namespace(Method::POST, "/apis/v1/namespaces//clusters", 404, 5)]
#[case::listed_without_namespace(Method::GET, "/apis/v1/namespaces//clusters", 404, 5)]
#[case::without_namespace(Method::GET, "/apis/v1/namespaces//clusters/x", 404, 5)]
#[case::deleted_without_namespace(Method::DELETE, "/apis/v1/namespaces//clusters/x", 404, 5)]
#[case::deleted_without_namespace_and_name(Method::DELETE, "/apis/v1/namespaces//clusters", 404, 5)]
#[case::template_without_namespace(Method::GET, "/apis/v1/namespaces//compute_templates/x", 404, 5)]
#[case::without_either(Method::DELETE, "/apis/v1/namespaces//clusters/", 404, 5)]
#[case::jobs(Method::GET, "/apis/v1/namespaces/demo/jobs", 404, 5)]
#[case::images(Method::GET, "/apis/v1/namespaces/demo/image_templates", 404, 5)]
#[case::method(Method::PUT, "/apis/v1/clusters", 501, 12)]
#[tokio::test]
async fn every_refusal_has_a_code_and_a_message(
    #[case] method: Method,
    #[case] path: &str,
    #[case] status: u16,
    #[case] code: i32,
) {
    let server = Server::dev().await;
    let response = server.call_at(method, path, None).await;
    let (refused, body) = (response.status().as_u16(), response.json::<Value>().await.expect("JSON"));
    assert_eq!((refused, &body["code"]), (status, &json!(code)), "{body}");
    let keys: Vec<&String> = body.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["code", "message"]);
}

#[tokio::test]
async fn unknown_fields_and_names_are_ignored_as_by_the_existing_server() {
    let server = server().await;
    let mut given = ray("odd", &python(&server));
    given["no_such_field"] = json!(1);
    given["environment"] = json!("NO_SUCH_ENVIRONMENT");
    let created = answered(&server, Method::POST, CLUSTERS, Some(given)).await;
    assert_eq!((&created["name"], created.get("environment")), (&json!("odd"), None), "{created}");
}

#[tokio::test]
async fn over_grpc_a_request_without_its_message_is_refused_and_the_server_keeps_running() {
    let server = server().await;
    let mut client = ClusterServiceClient::connect(server.grpc.clone()).await.expect("a connection");
    let empty =
        client.create_cluster(CreateClusterRequest::default()).await.expect_err("nothing is asked for");
    assert_eq!(
        (empty.code(), empty.message()),
        (Code::InvalidArgument, "Namespace is empty. Please specify a valid value.")
    );
    let none = CreateClusterRequest { namespace: "demo".to_owned(), cluster: None };
    assert_eq!(client.create_cluster(none).await.expect_err("nothing").code(), Code::InvalidArgument);
    let unnamed = client.list_cluster(ListClustersRequest::default()).await.expect_err("no namespace");
    assert_eq!(unnamed.code(), Code::InvalidArgument);
    let missing = GetClusterRequest { name: "none".to_owned(), namespace: "demo".to_owned() };
    assert_eq!(client.get_cluster(missing).await.expect_err("it is not there").code(), Code::NotFound);
    let given: Cluster = serde_json::from_value(ray("one", &python(&server))).expect("a cluster");
    let request = CreateClusterRequest { cluster: Some(given), namespace: "demo".to_owned() };
    let created = client.create_cluster(request).await.expect("it is created").into_inner();
    assert_eq!((created.name.as_str(), created.user.as_str()), ("one", "ada"));
    let all = client.list_all_clusters(ListAllClustersRequest::default()).await.expect("a list").into_inner();
    assert_eq!(all.clusters.len(), 1);
}

#[tokio::test]
async fn the_older_command_line_is_served_with_its_numbering_if_configured() {
    let server = Server::start(&["--dev", "--grpc-proto-numbering", "v1alpha2"]).await;
    let given: newer::Cluster = serde_json::from_value(cluster("old", 0)).expect("a cluster");
    let request = newer::CreateClusterRequest {
        cluster: Some(given),
        namespace: "demo".to_owned(),
        ..newer::CreateClusterRequest::default()
    };
    for address in [&server.grpc, &server.rest] {
        let channel = tonic::transport::Endpoint::from_shared(address.clone()).expect("an address");
        let channel = channel.connect().await.expect("a connection");
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.expect("it is ready");
        let path = http::uri::PathAndQuery::from_static("/proto.ClusterService/GetCluster");
        let get = newer::GetClusterRequest {
            name: "old".to_owned(),
            namespace: "demo".to_owned(),
            ..newer::GetClusterRequest::default()
        };
        if address == &server.grpc {
            let path = http::uri::PathAndQuery::from_static("/proto.ClusterService/CreateCluster");
            let codec = tonic_prost::ProstCodec::<newer::CreateClusterRequest, newer::Cluster>::default();
            let created = client.unary(tonic::Request::new(request.clone()), path, codec).await;
            // Time stamps have the number that the newer numbering assigns to annotations.
            assert!(created.expect("it is created").into_inner().created_at.is_some());
            client.ready().await.expect("it is ready");
        }
        let codec = tonic_prost::ProstCodec::<newer::GetClusterRequest, newer::Cluster>::default();
        let found =
            client.unary(tonic::Request::new(get), path, codec).await.expect("it exists").into_inner();
        assert_eq!((found.name.as_str(), found.created_at.is_some()), ("old", true));
    }
}

#[rstest]
#[case::digit("2024-team", 200)]
#[case::capital("Team", 400)]
#[case::dot("my.team", 400)]
#[tokio::test]
async fn a_template_is_created_in_a_namespace_that_kubernetes_can_have(
    #[case] namespace: &str,
    #[case] status: u16,
) {
    let server = Server::dev().await;
    let template = json!({"name": "t", "namespace": namespace, "cpu": 1, "memory": 1});
    let path = format!("/apis/v1/namespaces/{namespace}/compute_templates");
    let response = server.call_at(Method::POST, &path, Some(template)).await;
    assert_eq!(response.status().as_u16(), status);
}
