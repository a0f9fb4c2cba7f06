//! The nodes that kwok simulates.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

pub(super) async fn create(client: &Client, count: u16) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for index in 0..count {
        let node: Node = serde_json::from_value(node(index))?;
        nodes
            .create(&PostParams::default(), &node)
            .await
            .with_context(|| format!("cannot make node-{index}"))?;
    }
    Ok(())
}

fn node(index: u16) -> Value {
    let name = format!("node-{index}");
    let zone = ZONES[usize::from(index) % ZONES.len()];
    let mut resources = json!({"cpu": "32", "memory": "256Gi", "pods": "110"});
    // Every third node has accelerators, and a pool of its own.
    let has_gpus = index % 3 == 2;
    if has_gpus {
        resources["nvidia.com/gpu"] = "8".into();
    }
    json!({
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": "region-1",
                "topology.kubernetes.io/zone": zone,
                "dominodatalab.com/node-pool": if has_gpus { "gpus" } else { "default" },
            },
        },
        "status": {"capacity": resources, "allocatable": resources},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_take_turns_with_the_zones() {
        let zones: Vec<_> = (0..4)
            .map(|index| node(index)["metadata"]["labels"]["topology.kubernetes.io/zone"].clone())
            .collect();
        assert_eq!(zones, ["zone-a", "zone-b", "zone-c", "zone-a"]);
    }
}
