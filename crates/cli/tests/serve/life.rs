//! The life cycle of a cluster over HTTP and gRPC.

use futures::StreamExt as _;
use muster_proto::v1alpha2::cluster_service_client::ClusterServiceClient;
use muster_proto::v1alpha2::{
    Cluster, ClusterSpec, CreateClusterRequest, DeleteClusterRequest, ListNodesRequest, ScaleClusterRequest,
    UpdateClusterRequest, WatchClustersRequest, WorkerGroupSpec,
};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::{Server, TIMEOUT, slow_cluster};

#[tokio::test]
async fn a_cluster_is_created_changed_and_deleted_over_http() {
    let server = Server::dev().await;
    let created = server.create("fred", 3).await;
    assert_eq!(
        (created["state"].as_str(), created["readyWorkers"].as_i64()),
        (Some("ACTIVE"), Some(3)),
        "{created}"
    );
    let body = json!({"replicas": 5, "wait_for": "reached"});
    let scaled = server.post("/namespaces/demo/clusters/fred/scale", body).await;
    assert_eq!(scaled["readyWorkers"], 5);
    let nodes = server.get("/namespaces/demo/clusters/fred/nodes").await;
    assert_eq!(nodes["nodes"].as_array().map(Vec::len), Some(5));
    let gone = server.call(Method::DELETE, "/namespaces/demo/clusters/fred?wait_for=reached", None).await;
    assert!(gone.headers().contains_key("muster-action-id"), "{gone:?}");
    assert_eq!(gone.text().await.unwrap(), "{}");
    let (status, word, _) = server.refusal(Method::GET, "/namespaces/demo/clusters/fred", None).await;
    assert_eq!((status, word.as_str()), (404, "ClusterNotFound"));
    let history = server.get(&format!("/clusters/{}", created["id"].as_str().unwrap())).await;
    assert_eq!(history["state"], "DELETED");
    assert!(history["deletedAt"].is_string(), "{history}");
}

#[rstest]
#[case::its_own(|server: &Server| server.grpc.clone())]
#[case::of_rest(|server: &Server| server.rest.clone())]
#[tokio::test]
async fn a_cluster_is_created_changed_and_deleted_over_grpc_on_both_ports(
    #[case] port: fn(&Server) -> String,
) {
    let server = Server::dev().await;
    let mut clusters = ClusterServiceClient::connect(port(&server)).await.unwrap();
    let group = WorkerGroupSpec { group_name: "small".into(), replicas: 2, ..WorkerGroupSpec::default() };
    let spec = ClusterSpec { worker_group_spec: vec![group], ..ClusterSpec::default() };
    let cluster = Cluster {
        name: "fred".into(),
        profile: "simulated.node-1.0".into(),
        cluster_spec: Some(spec),
        ..Cluster::default()
    };
    let (namespace, name) = ("demo".to_owned(), "fred".to_owned());
    let create = CreateClusterRequest {
        cluster: Some(cluster),
        namespace: namespace.clone(),
        wait_for: "reached".into(),
        ..CreateClusterRequest::default()
    };
    let created = clusters.create_cluster(create).await.unwrap();
    assert!(created.metadata().contains_key("muster-action-id"));
    assert_eq!(created.into_inner().ready_workers, Some(2));
    let scale = ScaleClusterRequest {
        name: name.clone(),
        namespace: namespace.clone(),
        replicas: Some(4),
        wait_for: "reached".into(),
        ..ScaleClusterRequest::default()
    };
    assert_eq!(clusters.scale_cluster(scale).await.unwrap().into_inner().desired_workers, 4);
    let nodes =
        ListNodesRequest { name: name.clone(), namespace: namespace.clone(), ..ListNodesRequest::default() };
    assert_eq!(clusters.list_nodes(nodes).await.unwrap().into_inner().nodes.len(), 4);
    let delete = DeleteClusterRequest {
        name,
        namespace,
        wait_for: "reached".into(),
        ..DeleteClusterRequest::default()
    };
    clusters.delete_cluster(delete).await.unwrap();
}

#[tokio::test]
async fn a_watch_begins_with_the_full_list_and_reports_every_change() {
    let server = Server::dev().await;
    server.create("first", 1).await;
    let mut clusters = ClusterServiceClient::connect(server.grpc.clone()).await.unwrap();
    let request = WatchClustersRequest { namespace: "demo".into(), ..WatchClustersRequest::default() };
    let mut watch = clusters.watch_clusters(request).await.unwrap().into_inner();
    let mut next = async || {
        let message = tokio::time::timeout(TIMEOUT, watch.next()).await.expect("the watch responds");
        let message = message.expect("the watch is open").expect("a message");
        let cluster = message.cluster.unwrap_or_default();
        (message.r#type, cluster.name, cluster.state)
    };
    assert_eq!(next().await, ("ADDED".into(), "first".into(), "ACTIVE".into()));
    assert_eq!(next().await.0, "BOOKMARK");
    server.create("second", 1).await;
    assert_eq!(next().await.0, "ADDED");
    loop {
        let (kind, name, state) = next().await;
        assert_eq!((kind.as_str(), name.as_str()), ("MODIFIED", "second"));
        if state == "ACTIVE" {
            break;
        }
    }
    server.call(Method::DELETE, "/namespaces/demo/clusters/first?wait_for=reached", None).await;
    loop {
        let (kind, name, _) = next().await;
        assert_eq!(name, "first");
        if kind == "DELETED" {
            break;
        }
    }
}

#[tokio::test]
async fn a_repeated_signal_is_executed_once() {
    let server = Server::dev().await;
    let made = server.call(
        Method::POST,
        "/namespaces/demo/clusters?wait_for=applied",
        Some(slow_cluster("slow", 1, 3600)),
    );
    let id = made.await.headers()["muster-action-id"].to_str().expect("an id").to_owned();
    let (cancel, signal) = (format!("/actions/{id}/cancel"), format!("/actions/{id}/signal"));
    let request = json!({"wait_for": "reached", "request_id": "c1"});
    let first = server.post(&cancel, request.clone()).await;
    let again = server.post(&cancel, request).await;
    assert_eq!((&first["status"], &again["status"]), (&json!("CANCELLED"), &json!("CANCELLED")));
    let other = Some(json!({"signal": "suspend", "request_id": "c1"}));
    let (status, word, _) = server.refusal(Method::POST, &signal, other).await;
    assert_eq!((status, word.as_str()), (422, "RequestIdReused"), "its id is that of another request");
}

#[tokio::test]
async fn a_running_action_is_listed_cancelled_and_shown() {
    let server = Server::dev().await;
    server.post("/namespaces/demo/clusters", slow_cluster("slow", 2, 3600)).await;
    let running =
        server.get("/namespaces/demo/clusters/slow/actions?state=RUNNING&action=CLUSTER_CREATE").await;
    let id = running["actions"][0]["id"].as_str().expect("a running action").to_owned();
    assert_eq!(running["actions"][0]["milestones"], json!(["accepted", "applied"]));
    let ended = server.post(&format!("/actions/{id}/cancel"), json!({"wait_for": "reached"})).await;
    assert_eq!(
        (ended["status"].as_str(), ended["statusReason"].as_str()),
        (Some("CANCELLED"), Some("Action execution cancelled"))
    );
    let again = server.post(&format!("/actions/{id}/cancel"), json!({})).await;
    assert_eq!(again["status"], "CANCELLED", "asked again, it is as it was asked for");
    let suspend = Some(json!({"signal": "suspend"}));
    let (status, _, sentence) = server.refusal(Method::POST, &format!("/actions/{id}/signal"), suspend).await;
    assert_eq!(status, 400, "{sentence}");
    assert!(sentence.contains("it has ended"), "{sentence}");
}

#[tokio::test]
async fn events_name_the_user_the_change_and_the_api() {
    let server = Server::dev().await;
    server.create("fred", 1).await;
    let events = server.get("/namespaces/demo/clusters/fred/events").await;
    let reported: Vec<(&str, &str, &str, &str)> = events["events"]
        .as_array()
        .expect("events")
        .iter()
        .map(|event| {
            let text = |key: &str| event[key].as_str().unwrap_or_default();
            (text("reason"), text("phase"), text("user"), text("door"))
        })
        .collect();
    assert_eq!(
        reported,
        [("CLUSTER_CREATE", "start", "dev", "core"), ("CLUSTER_CREATE", "end", "dev", "core")]
    );
    let shown = &server.get("/namespaces/demo/clusters/fred").await["events"];
    assert_eq!(
        (shown[0]["message"].as_str(), shown[0]["type"].as_str()),
        (Some("Cluster creation succeeded."), Some("Normal")),
        "the newest is shown first within the cluster"
    );
}

#[tokio::test]
async fn a_cluster_is_created_from_a_stored_profile_by_name_or_id() {
    let server = Server::dev().await;
    let spec = json!({"type": "simulated.node", "version": "1.0", "properties": {"flavor": "mine"}});
    let profile = json!({"profile": {"name": "stored", "spec": spec}});
    let stored = server.call_at(Method::POST, "/clustering/v1/profiles", Some(profile)).await;
    let stored: Value = stored.json().await.expect("JSON");
    let id = stored["profile"]["id"].as_str().expect("an id");
    for (name, profile) in [("by-name", "stored"), ("by-id", id)] {
        let given = json!({"name": name, "profile": profile});
        let created = server.post("/namespaces/2024-team/clusters", given).await;
        let shown = (&created["profile"], &created["profileProperties"]);
        assert_eq!(shown, (&json!("simulated.node-1.0"), &json!({"flavor": "mine"})));
    }
    let mut scaled = json!({"name": "scaled", "profile": "stored"});
    scaled["cluster_spec"] = json!({"worker_group_spec": [{"group_name": "1st", "replicas": 1.0}]});
    let created = server.post("/namespaces/2024-team/clusters", scaled).await;
    assert_eq!(created["clusterSpec"]["workerGroupSpec"][0]["replicas"], 1);
}

#[tokio::test]
async fn an_empty_grpc_message_is_an_invalid_argument() {
    let server = Server::dev().await;
    let mut clusters = ClusterServiceClient::connect(server.grpc.clone()).await.unwrap();
    let refused = [
        clusters.update_cluster(UpdateClusterRequest::default()).await.unwrap_err(),
        clusters.scale_cluster(ScaleClusterRequest::default()).await.unwrap_err(),
    ];
    for status in refused {
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
        assert!(status.message().starts_with("name is empty"), "{status}");
    }
}
