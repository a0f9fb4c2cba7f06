//! The take-over from the published operator.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use muster_machines::keys;
use muster_machines::types::{Machine, MachineNodePool};
use muster_testkit::eventually;
use serde_json::{Value, json};

use crate::harness::{OURS, PATIENCE, Site, spec};

/// Objects of the published operator for Machine `m` of group `g`: a reservation, a pool, and labels and taints on a
/// node.
async fn leave_behind(site: &Site) {
    let new = PostParams::default();
    site.namespace(OURS, &json!({})).await;
    let mut machine = json!({
        "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": "m", "labels": {keys::MACHINE_GROUP: "g"}},
    });
    machine["spec"] = spec("medium", &["node-0"], 2);
    let machines = Api::<Machine>::all(site.client.clone());
    let machine: Machine = machines.create(&new, &serde_json::from_value(machine).unwrap()).await.unwrap();
    let owner = json!([{"apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine", "name": "m",
        "uid": machine.uid(), "controller": true}]);
    let labels =
        json!({keys::MACHINE_GROUP: "g", keys::MACHINE_TYPE: "medium", keys::POD_ROLE: keys::RESERVATION});
    let metadata = json!({"name": "g-medium", "labels": labels, "ownerReferences": owner});
    let resources = json!({"cpu": "6", "memory": "48Gi"});
    let set: StatefulSet = serde_json::from_value(json!({"metadata": metadata, "spec": {
        "replicas": 1, "serviceName": "g-medium", "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [
            {"name": "sleeper", "image": "alpine:3.15.0", "resources": {"requests": resources, "limits": resources}}]}}}}))
    .unwrap();
    Api::namespaced(site.client.clone(), OURS).create(&new, &set).await.unwrap();
    let service: Service = serde_json::from_value(
        json!({"metadata": metadata, "spec": {"selector": labels, "ports": [{"port": 80}]}}),
    )
    .unwrap();
    Api::namespaced(site.client.clone(), OURS).create(&new, &service).await.unwrap();
    let pool: MachineNodePool = serde_json::from_value(json!({
        "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "MachineNodePool",
        "metadata": {"name": "g-node-pool", "labels": {keys::MACHINE_GROUP: "g"}, "ownerReferences": owner,
            "finalizers": [keys::PUBLISHED_FINALIZER]},
        "spec": {"machineGroupName": "g", "machineTypeStock": [{"name": "medium"}],
            "nodePool": [{"name": "node-0", "mode": "ready", "machineType": [{"name": "medium"}]}]},
    }))
    .unwrap();
    let pools = Api::<MachineNodePool>::all(site.client.clone());
    pools.create(&new, &pool).await.unwrap();
    let status = json!({"status": {"nodePool": [{"name": "node-0", "condition": "Healthy"}]}});
    pools.patch_status("g-node-pool", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let marks = json!({"metadata": {"annotations": {keys::MACHINE_GROUP: "g"},
        "labels": {keys::NODE_POOL: "ready", keys::type_key("medium"): "g"}}});
    Api::<Node>::all(site.client.clone())
        .patch("node-0", &PatchParams::default(), &Patch::Merge(marks))
        .await
        .unwrap();
}

#[tokio::test]
async fn objects_of_the_published_operator_are_replaced_and_its_guests_continue() {
    let Some(site) = Site::open().await else { return };
    leave_behind(&site).await;
    // A guest of the published operator, created before the webhook was registered.
    site.guest("ann", "g", "medium").await.unwrap();
    let node = site.placed("ann").await;
    let uid = site.pods().get("ann").await.unwrap().uid();

    let now = Timestamp::now().to_string();
    let lease: Lease = serde_json::from_value(json!({"metadata": {"name": keys::PUBLISHED_LEASE},
        "spec": {"holderIdentity": "imperator-1", "leaseDurationSeconds": 3600, "renewTime": now}}))
    .unwrap();
    let leases = Api::<Lease>::namespaced(site.client.clone(), OURS);
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let refused = site.refused_start(|_| {}).await;
    assert!(refused.contains("another operator manages Machines: imperator-1"), "{refused}");
    leases.delete(keys::PUBLISHED_LEASE, &DeleteParams::default()).await.unwrap();

    let _replica = site.replica("one").await;
    let sets = Api::<StatefulSet>::namespaced(site.client.clone(), OURS);
    let pools = Api::<MachineNodePool>::all(site.client.clone());
    eventually("its objects are replaced", PATIENCE, async || {
        let sets: Vec<String> = sets
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .iter()
            .map(StatefulSet::name_any)
            .collect();
        let pools: Vec<String> = pools
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .iter()
            .map(MachineNodePool::name_any)
            .collect();
        if (sets.join(" "), pools.join(" ")) == ("medium-g".to_owned(), "m-node-pool".to_owned()) {
            Ok(())
        } else {
            Err(format!("{sets:?} {pools:?}"))
        }
    })
    .await;
    site.counts("m", "medium", [2, 1, 1, 0]).await;
    let guest = site.pods().get("ann").await.unwrap();
    assert_eq!((guest.uid(), guest.spec.and_then(|spec| spec.node_name)), (uid, Some(node)));
    let machine = Api::<Machine>::all(site.client.clone()).get("m").await.unwrap();
    let booked: Vec<Value> = machine.bookings().iter().map(|booking| json!(booking.name)).collect();
    assert_eq!(booked, [json!("ann")]);
}
