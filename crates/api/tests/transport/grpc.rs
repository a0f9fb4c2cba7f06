use futures::StreamExt as _;
use muster_api::error::ERROR_HEADER;
use muster_proto::v1alpha2::admin_service_client::AdminServiceClient;
use muster_proto::v1alpha2::cluster_service_client::ClusterServiceClient;
use muster_proto::v1alpha2::{Cluster, CreateClusterRequest, WatchClustersRequest, WhoAmIRequest};
use tonic::transport::Channel;
use tonic::{Code, Request};

use crate::harness::{Harness, TOKEN};

async fn channel(harness: &Harness) -> Channel {
    Channel::from_shared(harness.grpc.clone()).unwrap().connect().await.unwrap()
}

fn signed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {TOKEN}").parse().unwrap());
    request
}

#[tokio::test]
async fn the_service_knows_its_caller() {
    let harness = Harness::new().await;
    let mut admin = AdminServiceClient::new(channel(&harness).await);
    let me = admin.who_am_i(signed(WhoAmIRequest {})).await.unwrap().into_inner();
    assert_eq!((me.scheme.as_str(), me.name.as_str(), me.project.as_str()), ("tokens", "bob", "p"));
    assert_eq!(me.roles, ["member"]);
    let status = admin.who_am_i(WhoAmIRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    assert!(status.message().contains("credentials are needed"), "{status}");
}

#[tokio::test]
async fn a_response_carries_its_action_and_an_error_its_code() {
    let harness = Harness::new().await;
    let mut clusters = ClusterServiceClient::new(channel(&harness).await);
    let create = |name: &str| {
        let cluster = Some(Cluster { name: name.to_owned(), ..Cluster::default() });
        signed(CreateClusterRequest { cluster, ..CreateClusterRequest::default() })
    };
    let made = clusters.create_cluster(create("c")).await.unwrap();
    assert_eq!(made.metadata().get("muster-action-id").unwrap(), "action-1");
    let status = clusters.create_cluster(create("taken")).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    assert_eq!(status.metadata().get(ERROR_HEADER).unwrap(), "ClusterNameTaken");
    let status = clusters.create_cluster(signed(CreateClusterRequest::default())).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_watch_is_a_stream() {
    let harness = Harness::new().await;
    let mut clusters = ClusterServiceClient::new(channel(&harness).await);
    let watch = clusters.watch_clusters(signed(WatchClustersRequest::default())).await.unwrap();
    let changes: Vec<_> = watch.into_inner().collect().await;
    assert_eq!(changes.len(), 3);
    assert_eq!(changes[2].as_ref().unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn the_guard_stands_before_grpc_too() {
    let harness = Harness::new().await;
    let evil = Channel::from_shared(harness.grpc.clone()).unwrap();
    let evil = evil.origin("http://evil.example".parse().unwrap()).connect().await.unwrap();
    let status = AdminServiceClient::new(evil).who_am_i(signed(WhoAmIRequest {})).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(status.message().contains("evil.example"), "{status}");
}

#[tokio::test]
async fn a_message_that_cannot_be_decoded_is_the_callers_mistake() {
    let harness = Harness::new().await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    // Field 1 of CreateClusterRequest is a message of 9 bytes, of which none follows.
    let message = [0x0a, 9];
    let frame = [&[0, 0, 0, 0, 2][..], &message].concat();
    let request = client
        .post(format!("{}/muster.v1alpha2.ClusterService/CreateCluster", harness.grpc))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .bearer_auth(TOKEN)
        .body(frame);
    let response = request.send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!((header("grpc-status"), header(ERROR_HEADER)), ("3".to_owned(), "InvalidArgument".to_owned()));
    assert!(
        header("grpc-message").starts_with("the%20request%20is%20not%20a%20valid%20message"),
        "{response:?}"
    );
}
