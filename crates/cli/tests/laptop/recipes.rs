//! Request bodies of clusters.

use serde_json::{Value, json};

/// A Dask cluster.
pub(crate) fn dask(name: &str, workers: u32) -> Value {
    cluster("dask", name, workers)
}

/// A Spark cluster.
pub(crate) fn spark(name: &str, workers: u32) -> Value {
    cluster("spark", name, workers)
}

fn cluster(framework: &str, name: &str, workers: u32) -> Value {
    json!({
        "name": name,
        "framework": framework,
        "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": workers}]},
    })
}

/// A Ray cluster with these worker groups.
pub(crate) fn ray(name: &str, groups: &[(&str, u32)]) -> Value {
    let group = |&(name, workers): &(&str, u32)| json!({"group_name": name, "replicas": workers});
    let groups: Vec<Value> = groups.iter().map(group).collect();
    json!({"name": name, "framework": "ray", "cluster_spec": {"worker_group_spec": groups}})
}

/// A cluster of plain processes with these properties.
pub(crate) fn processes(name: &str, workers: u32, properties: &Value) -> Value {
    json!({
        "name": name,
        "profile": "local.process-1.0",
        "profile_properties": properties,
        "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": workers}]},
    })
}

/// A cluster of processes that sleep.
pub(crate) fn sleepers(name: &str, workers: u32) -> Value {
    processes(name, workers, &json!({"command": ["sleep", "1000"]}))
}
