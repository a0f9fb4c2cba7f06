//! Labels and taints of nodes, and their complete removal.

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use muster_machines::keys;
use muster_machines::types::{Machine, MachineNodePool};
use muster_testkit::eventually;
use serde_json::{Value, json};

use crate::harness::{OURS, PATIENCE, Site, spec, unread};

/// Muster's labels and annotations on a node, and all its taints.
async fn carried(site: &Site, node: &str) -> Vec<String> {
    let node = Api::<Node>::all(site.client.clone()).get(node).await.unwrap();
    let ours = |key: &&String| key.starts_with(keys::DOMAIN);
    let mut all: Vec<String> =
        node.labels().keys().chain(node.annotations().keys()).filter(ours).cloned().collect();
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    all.extend(taints.into_iter().map(|taint| format!("{}={}", taint.key, taint.value.unwrap_or_default())));
    all.sort();
    all
}

async fn carries(site: &Site, node: &str, expected: &[&str]) {
    eventually(&format!("{node} carries {expected:?}"), PATIENCE, async || {
        let found = carried(site, node).await;
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

fn entry(node: &str, machine_type: &str, taint: bool) -> Value {
    json!({"name": node, "mode": "ready", "taint": taint, "machineType": [{"name": machine_type}]})
}

#[tokio::test]
async fn nodes_are_marked_and_cleaned() {
    let Some(site) = Site::open().await else { return };
    let _replica = site.replica("one").await;
    let types =
        ["a", "b"].map(|name| json!({"name": name, "spec": {"cpu": "1", "memory": "1Gi"}, "available": 1}));
    let pool = json!([entry("node-0", "a", true), entry("node-1", "a", false), entry("node-2", "b", true)]);
    // A taint of others stays, whatever happens to ours.
    let tainted =
        json!({"spec": {"taints": [{"key": "theirs", "value": "x", "effect": "PreferNoSchedule"}]}});
    let nodes = Api::<Node>::all(site.client.clone());
    nodes.patch("node-0", &PatchParams::default(), &Patch::Merge(tainted)).await.unwrap();
    site.create_machine("general", &json!({"nodePool": pool, "machineTypes": types})).await.unwrap();

    let marks = |machine_type: &str| {
        let mut marks = vec![
            format!("{}/{machine_type}", keys::DOMAIN),
            keys::MACHINE_GROUP.to_owned(),
            keys::MACHINE_TYPE.to_owned(),
            keys::NODE_POOL.to_owned(),
        ];
        marks.sort();
        marks
    };
    let tainted = |machine_type: &str, more: &[&str]| {
        let mut all = marks(machine_type);
        all.push(format!("{}/{machine_type}=general", keys::DOMAIN));
        all.push(format!("{}=ready", keys::NODE_POOL));
        all.extend(more.iter().map(|more| (*more).to_owned()));
        all.sort();
        all
    };
    let is = async |node: &str, expected: Vec<String>| {
        carries(&site, node, &expected.iter().map(String::as_str).collect::<Vec<_>>()).await;
    };
    is("node-0", tainted("a", &["theirs=x"])).await;
    is("node-1", marks("a")).await;
    is("node-2", tainted("b", &[])).await;

    // A node leaves, one changes its type, one loses its taint.
    let pool = json!([entry("node-0", "b", true), entry("node-2", "b", false)]);
    site.patch_machine("general", json!({"spec": {"nodePool": pool}})).await.unwrap();
    is("node-0", tainted("b", &["theirs=x"])).await;
    is("node-1", Vec::new()).await;
    is("node-2", marks("b")).await;
    let pools = Api::<MachineNodePool>::all(site.client.clone());
    let edited = json!({"spec": {"nodePool": []}});
    pools.patch("general-node-pool", &PatchParams::default(), &Patch::Merge(edited)).await.unwrap();
    eventually("a pool that was edited is put right", PATIENCE, async || {
        let listed =
            pools.get("general-node-pool").await.map_err(|error| unread(&error))?.spec.node_pool.len();
        if listed == 2 { Ok(()) } else { Err(listed.to_string()) }
    })
    .await;

    // A node that is cordoned is not used; one that vanishes is named, and the others continue.
    let cordoned = json!({"spec": {"unschedulable": true}});
    nodes.patch("node-2", &PatchParams::default(), &Patch::Merge(cordoned)).await.unwrap();
    eventually("the cordoned node is not ready", PATIENCE, async || {
        let node = nodes.get("node-2").await.unwrap();
        let value = node.labels().get(keys::NODE_POOL).cloned();
        if value.as_deref() == Some("not-ready") { Ok(()) } else { Err(format!("{value:?}")) }
    })
    .await;
    nodes.delete("node-2", &DeleteParams::default()).await.unwrap();
    eventually("the missing node is named", PATIENCE, async || {
        let status =
            pools.get("general-node-pool").await.map_err(|error| unread(&error))?.status.unwrap_or_default();
        let message =
            status.conditions.first().map(|condition| condition.message.clone()).unwrap_or_default();
        if message.contains("failed to find node node-2") { Ok(()) } else { Err(message) }
    })
    .await;

    let machines = Api::<Machine>::all(site.client.clone());
    machines.delete("general", &DeleteParams::background()).await.unwrap();
    carries(&site, "node-0", &["theirs=x"]).await;
    eventually("nothing is left", PATIENCE, async || {
        let pools = pools.list(&ListParams::default()).await.map_err(|error| unread(&error))?.items.len();
        let services = Api::<Service>::namespaced(site.client.clone(), OURS);
        let services = services.list(&ListParams::default()).await.unwrap().items.len();
        if (pools, services) == (0, 0) { Ok(()) } else { Err(format!("{:?}", (pools, services))) }
    })
    .await;
}

#[tokio::test]
async fn reservations_leave_nodes_that_cannot_be_used() {
    let Some(site) = Site::open().await else { return };
    let _replica = site.replica("one").await;
    site.create_machine("general", &spec("medium", &["node-0", "node-1"], 5)).await.unwrap();
    site.counts("general", "medium", [5, 5, 0, 0]).await;
    site.guest("ann", "general", "medium").await.unwrap();
    let node = site.placed("ann").await;
    let other = if node == "node-0" { "node-1" } else { "node-0" };
    site.counts("general", "medium", [5, 4, 1, 0]).await;
    // In maintenance: the guest stays, reservations move.
    let entry =
        |name: &str, mode: &str| json!({"name": name, "mode": mode, "machineType": [{"name": "medium"}]});
    let pool = json!([entry(&node, "maintenance"), entry(other, "ready")]);
    site.patch_machine("general", json!({"spec": {"nodePool": pool}})).await.unwrap();
    let reservations = Api::<Pod>::namespaced(site.client.clone(), OURS);
    let are_on = async |expected: &str| {
        eventually(&format!("4 reservations are on {expected}"), PATIENCE, async || {
            let pods = reservations.list(&ListParams::default()).await.unwrap().items;
            let nodes: Vec<_> =
                pods.iter().map(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone())).collect();
            let all = nodes.len() == 4 && nodes.iter().all(|node| node.as_deref() == Some(expected));
            if all { Ok(()) } else { Err(format!("{nodes:?}")) }
        })
        .await;
    };
    are_on(other).await;
    site.counts("general", "medium", [5, 4, 1, 0]).await;
    // A node that vanishes confirms no deletion.
    let pool = json!([entry(&node, "ready"), entry(other, "ready")]);
    site.patch_machine("general", json!({"spec": {"nodePool": pool}})).await.unwrap();
    Api::<Node>::all(site.client.clone()).delete(other, &DeleteParams::default()).await.unwrap();
    are_on(&node).await;
}
