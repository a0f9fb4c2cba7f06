//! A Machine with one type, and its guests.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Client};
use muster_testkit::eventually;
use serde_json::{Value, json};

use crate::server::TIMEOUT;

/// Namespace of the guests.
pub(crate) const GUESTS: &str = "guests";

/// The Machine `general` with the type `medium`.
pub(crate) struct General {
    pub(crate) machines: Api<DynamicObject>,
    client: Client,
}

impl General {
    /// Creates it on the first node, once Machines are accepted.
    pub(crate) async fn create(client: Client, available: u32) -> Self {
        let machine = json!({
            "apiVersion": "imperator.tenzen-y.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "general", "labels": {"imperator.tenzen-y.io/machine-group": "general"}},
            "spec": {
                "nodePool": [{"name": NODE, "mode": "ready", "taint": true, "machineType": [{"name": "medium"}]}],
                "machineTypes": [{"name": "medium", "spec": {"cpu": "6", "memory": "48Gi"}, "available": available}],
            },
        });
        let kind = GroupVersionKind::gvk("imperator.tenzen-y.io", "v1alpha1", "Machine");
        let machines: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        let machine: DynamicObject = serde_json::from_value(machine).expect("a Machine");
        eventually("a Machine is accepted", TIMEOUT, async || {
            machines.create(&PostParams::default(), &machine).await.map_err(|error| error.to_string())
        })
        .await;
        Self { machines, client }
    }

    /// Waits until its slots have these counts.
    pub(crate) async fn wait_for_counts(&self, expected: Value) {
        eventually(&format!("it is counted {expected}"), TIMEOUT, async || {
            let machine = self.machines.get("general").await.expect("a Machine");
            let usage = machine.data["status"]["availableMachines"][0]["usage"].clone();
            if usage == expected { Ok(()) } else { Err(machine.data["status"].clone()) }
        })
        .await;
    }

    /// Creates the namespace of the guests, and the guest `ann`.
    pub(crate) async fn add_guest(&self) {
        let labels = json!({"imperator.tenzen.io/inject-resource": "enabled"});
        let namespace = json!({"metadata": {"name": GUESTS, "labels": labels}});
        let namespace: Namespace = serde_json::from_value(namespace).expect("a namespace");
        Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await.expect("a namespace");
        let labels = json!({"imperator.tenzen-y.io/machine-group": "general",
            "imperator.tenzen-y.io/machine-type": "medium", "imperator.tenzen-y.io/pod-role": "guest"});
        let guest = json!({"metadata": {"name": "ann", "labels": labels},
            "spec": {"containers": [{"name": "main", "image": "example.test/main:1"}]}});
        let guest: Pod = serde_json::from_value(guest).expect("a pod");
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), GUESTS);
        pods.create(&PostParams::default(), &guest).await.expect("a guest");
    }
}

/// Returns the node of its pool.
pub(crate) const NODE: &str = "node-0";
