//! The rules of a resize.

use rstest::rstest;
use serde_json::{Value, json};

use crate::server::Server;

/// Creates a cluster of 5 nodes with bounds 1 and 10.
async fn five(server: &Server) -> Value {
    server.cluster("c", json!({"desired_capacity": 5, "min_size": 1, "max_size": 10})).await
}

#[rstest]
#[case(json!({"adjustment_type": "EXACT_CAPACITY", "number": 7}), 7)]
#[case(json!({"adj_type": "CHANGE_IN_CAPACITY", "number": "-2"}), 3)]
#[case(json!({"adjustment_type": "CHANGE_IN_CAPACITY", "number": 1.9}), 6)]
#[case(json!({"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": 10}), 6)]
#[case(json!({"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": -10, "min_step": 2}), 3)]
#[case(json!({"adjustment_type": "EXACT_CAPACITY", "number": 20, "strict": false}), 10)]
#[case(json!({"adjustment_type": "CHANGE_IN_CAPACITY", "number": -9, "strict": false}), 1)]
#[case(json!({"min_size": 7, "strict": false}), 7)]
#[case(json!({"max_size": 3, "strict": false}), 3)]
#[case(json!({"adjustment_type": "EXACT_CAPACITY", "number": 12, "max_size": 12}), 12)]
#[case(json!({"adjustment_type": "EXACT_CAPACITY", "number": 12, "max_size": -1}), 12)]
#[tokio::test]
async fn a_cluster_gets_the_computed_size(#[case] resize: Value, #[case] size: u32) {
    let server = Server::sqlite().await;
    let cluster = five(&server).await;
    let action = server.act(&cluster, json!({"resize": resize})).await;
    assert_eq!(action["status"], "SUCCEEDED", "{action}");
    let shown = server.get("/clusters/c").await.body["cluster"].clone();
    assert_eq!(shown["desired_capacity"], size);
    assert_eq!(shown["nodes"].as_array().unwrap().len(), usize::try_from(size).unwrap());
    assert_eq!(shown["status"], "ACTIVE");
}

#[rstest]
#[case(json!({}), "Not enough parameters to do resize action.")]
#[case(json!({"adjustment_type": "EXACT_CAPACITY"}), "Missing number value for size adjustment.")]
#[case(json!({"number": 2}), "Missing adjustment_type value for size adjustment.")]
#[case(json!({"adjustment_type": "FOO", "number": 2}), "Value 'FOO' is not acceptable for field 'adjustment_type'.")]
#[case(json!({"adjustment_type": "EXACT_CAPACITY", "number": -1}), "The 'number' must be non-negative integer for adjustment type 'EXACT_CAPACITY'.")]
#[case(json!({"adjustment_type": "EXACT_CAPACITY", "number": 20}), "The target capacity (20) is greater than the cluster's max_size (10).")]
#[case(json!({"adjustment_type": "CHANGE_IN_CAPACITY", "number": -7}), "The target capacity (-2) is less than the cluster's min_size (1).")]
#[case(json!({"adjustment_type": "EXACT_CAPACITY", "number": 2000, "strict": false, "max_size": -1}), "The target capacity (2000) is greater than the maximum number of nodes allowed per cluster (1000).")]
#[case(json!({"min_size": 7}), "The specified min_size (7) is greater than the current desired_capacity (5) of the cluster.")]
#[case(json!({"max_size": 3}), "The specified max_size (3) is less than the current desired_capacity (5) of the cluster.")]
#[case(json!({"min_size": 11, "strict": false}), "The specified min_size (11) is greater than the current max_size (10) of the cluster.")]
#[case(json!({"min_size": 4, "max_size": 3}), "The specified min_size (4) is greater than the specified max_size (3).")]
#[tokio::test]
async fn invalid_sizes_are_refused_before_anything_is_stored(#[case] resize: Value, #[case] message: &str) {
    let server = Server::sqlite().await;
    five(&server).await;
    let refused = server.post("/clusters/c/actions", json!({"resize": resize})).await;
    assert_eq!((refused.status, refused.message()), (400, message));
    assert_eq!(server.get("/actions?action=CLUSTER_RESIZE").await.body["actions"], json!([]));
}

#[tokio::test]
async fn errors_that_do_not_depend_on_the_cluster_are_reported_first() {
    let server = Server::sqlite().await;
    let bounds = server.post("/clusters/x/actions", json!({"resize": {"min_size": 3, "max_size": 1}})).await;
    assert_eq!(bounds.status, 400);
    let unknown = server.post("/clusters/x/actions", json!({"recover": {"foo": 1}})).await;
    assert_eq!(unknown.refusal(), (404, "ResourceNotFound", "The cluster 'x' could not be found."));
}

#[tokio::test]
async fn a_resize_answers_with_the_cluster_and_the_action() {
    let server = Server::sqlite().await;
    five(&server).await;
    let body = json!({"resize": {"adjustment_type": "EXACT_CAPACITY", "number": 6}});
    let accepted = server.post("/clusters/c/actions", body).await;
    assert_eq!((accepted.status, &accepted.body["cluster"]["name"]), (202, &"c".into()));
    assert_eq!(accepted.body["action"], accepted.action());
}
