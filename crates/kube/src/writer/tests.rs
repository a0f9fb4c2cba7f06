use muster_testkit::outside::{Outside, Reply};
use rstest::rstest;

use super::*;

const RAY_CLUSTER: ResourceKind =
    ResourceKind { group: "ray.io", version: "v1", kind: "RayCluster", plural: "rayclusters" };

/// The answer for a path that the API server does not serve.
const PAGE: &str = "404 page not found\n";

/// A writer whose requests about objects get a 404 with this body, with a definition of `RayCluster` or without one.
async fn answered(body: &str, is_defined: bool) -> (Outside, ObjectWriter) {
    let body = body.to_owned();
    let api_server = Outside::answering(move |call| {
        if !call.line.contains("/customresourcedefinitions?") {
            return Reply::Now(404, body.clone());
        }
        let definition = json!({"metadata": {"name": "rayclusters.ray.io"}});
        let items = if is_defined { vec![definition] } else { Vec::new() };
        Reply::Now(200, json!({"metadata": {}, "items": items}).to_string())
    })
    .await;
    let writer = ObjectWriter::new(crate::sample::client(&api_server), Fences::new("database"));
    (api_server, writer)
}

fn status(kind: &str) -> String {
    json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": format!("{kind} \"fred\" not found")})
        .to_string()
}

#[rstest]
#[case::no_such_object(&status("rayclusters.ray.io"), true, &RAY_CLUSTER, Ok(()))]
#[case::not_served_for_a_moment(PAGE, true, &RAY_CLUSTER, Err("NotNow"))]
#[case::without_a_definition(PAGE, false, &RAY_CLUSTER, Ok(()))]
#[case::built_in_kind(PAGE, false, &POD, Err("NotNow"))]
#[tokio::test]
async fn an_object_is_gone_only_if_the_api_server_says_so(
    #[case] body: &str,
    #[case] is_defined: bool,
    #[case] kind: &ResourceKind,
    #[case] gone: Result<(), &str>,
) {
    let (_api_server, writer) = answered(body, is_defined).await;
    let reason = |error: ProviderError| {
        assert!(error.transient, "{error:?}");
        error.reason
    };
    let read = writer.read_object(kind, "default", "fred").await.map_err(reason);
    assert_eq!(read, gone.map(|()| None).map_err(str::to_owned));
    let deleted = writer.delete_object(kind, "default", "fred", "1").await.map_err(reason);
    assert_eq!(deleted, gone.map(|()| DeletionProgress::Deleted).map_err(str::to_owned));
}

#[rstest]
#[case::no_namespace(&status("namespaces"), true, NO_NAMESPACE, false)]
#[case::not_served_for_a_moment(PAGE, true, "NotNow", true)]
#[case::without_a_definition(PAGE, false, "NoOperator", false)]
#[tokio::test]
async fn a_creation_that_is_not_found_has_the_reason(
    #[case] body: &str,
    #[case] is_defined: bool,
    #[case] reason: &str,
    #[case] is_transient: bool,
) {
    let (_api_server, writer) = answered(body, is_defined).await;
    let body = json!({"metadata": {"namespace": "default", "name": "fred"}});
    let manifest = Manifest { kind: &RAY_CLUSTER, body, owned: false };
    let error = writer
        .create_object(manifest, None, ClusterId::from_uuid(uuid::Uuid::from_u128(7)), Fence(1))
        .await
        .unwrap_err();
    assert_eq!((error.reason.as_ref(), error.transient), (reason, is_transient), "{error:?}");
}
