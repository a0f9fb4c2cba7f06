//! The JSON form of messages, as clients expect it.

use std::collections::BTreeMap;

use muster_proto::v1alpha2::cluster::Environment;
use muster_proto::v1alpha2::{Cluster, ClusterSpec, ListClustersResponse, Shape, WorkerGroupSpec};
use muster_proto::wkt::{Duration, Struct, Timestamp};
use serde_json::{Value, from_value, json, to_value};

fn cluster() -> Cluster {
    let Value::Object(properties) = json!({"nodes": 3, "wait": 0.5}) else { unreachable!("an object") };
    Cluster {
        name: "c".to_owned(),
        environment: Environment::Staging.into(),
        created_at: Some(Timestamp::from_micros(1_700_000_000_000_000)),
        cluster_spec: Some(ClusterSpec {
            worker_group_spec: vec![WorkerGroupSpec {
                group_name: "g".to_owned(),
                replicas: 2,
                min_replicas: Some(0),
                shape: Some(Shape { cpu: "500m".to_owned(), gpu: Some(0), ..Shape::default() }),
                ..WorkerGroupSpec::default()
            }],
            ..ClusterSpec::default()
        }),
        profile_properties: Some(Struct::from(properties)),
        idle_timeout: Some(Duration::from_micros(600_000_000)),
        labels: BTreeMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]),
        generation: 7,
        ..Cluster::default()
    }
}

#[test]
fn a_cluster_has_numbers_for_enums_z_for_times_and_nothing_empty() {
    let json = json!({
        "name": "c",
        "environment": 2,
        "clusterSpec": {"workerGroupSpec": [
            {"groupName": "g", "replicas": 2, "minReplicas": 0, "shape": {"cpu": "500m", "gpu": 0}}
        ]},
        "createdAt": "2023-11-14T22:13:20Z",
        "profileProperties": {"nodes": 3, "wait": 0.5},
        "idleTimeout": "600s",
        "labels": {"a": "1", "b": "2"},
        "generation": "7",
    });
    assert_eq!(to_value(cluster()).unwrap(), json);
    assert_eq!(from_value::<Cluster>(json).unwrap(), cluster());
}

#[test]
fn an_absent_bound_is_not_zero() {
    let spec: WorkerGroupSpec = from_value(json!({"groupName": "g"})).unwrap();
    assert_eq!((spec.min_replicas, spec.max_replicas), (None, None));
    let spec: WorkerGroupSpec = from_value(json!({"min_replicas": 0, "maxReplicas": "4"})).unwrap();
    assert_eq!((spec.min_replicas, spec.max_replicas), (Some(0), Some(4)));
}

#[test]
fn both_spellings_names_and_numbers_are_read_and_the_unknown_is_ignored() {
    let read = |json: Value| from_value::<Cluster>(json).unwrap();
    let by_name = read(json!({"environment": "PRODUCTION", "cluster_spec": {}, "what": {"is": "this"}}));
    assert_eq!(by_name.environment(), Environment::Production);
    assert!(by_name.cluster_spec.is_some());
    assert_eq!(read(json!({"environment": 1})).environment(), Environment::Testing);
    assert_eq!(read(json!({"environment": "MOON"})).environment(), Environment::Dev);
}

#[test]
fn a_total_of_zero_is_shown() {
    let answer = ListClustersResponse { total_size: Some(0), ..ListClustersResponse::default() };
    assert_eq!(to_value(answer).unwrap(), json!({"totalSize": 0}));
}
