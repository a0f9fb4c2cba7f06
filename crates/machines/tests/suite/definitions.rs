//! Custom resources of another version, which do not store the ledger.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use muster_machines::keys;
use muster_machines::types::{Machine, crds};
use muster_testkit::eventually;
use serde_json::json;

use crate::harness::{PATIENCE, Site, spec};

/// Changes the definition of Machines to one with or without a ledger.
async fn define(client: &Client, with_ledger: bool) {
    const LEDGER: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/bookings";
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let [wanted, _] = crds();
    let change = if with_ledger {
        json!([{"op": "add", "path": LEDGER, "value": json!(wanted).pointer(LEDGER)}])
    } else {
        json!([{"op": "remove", "path": LEDGER}])
    };
    let patch = Patch::Json::<()>(serde_json::from_value(change).unwrap());
    definitions.patch(&wanted.name_any(), &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn definitions_without_a_ledger_are_waited_out_and_give_no_slot() {
    let Some(site) = Site::open().await else { return };
    define(&site.client, false).await;
    let replica = site.try_start("one", |_| {}).await.unwrap();
    let remedy =
        "the custom resources are those of another version: run `muster machines crds | kubectl apply -f -`";
    eventually("it is not ready", PATIENCE, async || match replica.readiness() {
        Err(message) if message == remedy => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    define(&site.client, true).await;
    eventually("reviews are answered", PATIENCE, async || replica.readiness()).await;
    site.create_machine("general", &spec("medium", &["node-0"], 1)).await.unwrap();
    site.counts("general", "medium", [1, 1, 0, 0]).await;

    // The definition is replaced while the server runs: the API server drops the ledger from each write.
    define(&site.client, false).await;
    let probe = json!({"status": {"bookings": [{"uid": "u", "namespace": "n", "name": "p", "machineType": "t",
        "bookedAt": "2026-11-18T13:06:49.194524Z"}]}});
    let machines = Api::<Machine>::all(site.client.clone());
    eventually("the API server drops the ledger", PATIENCE, async || {
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        let patched = machines.patch_status("general", &dry, &Patch::Merge(&probe)).await.unwrap();
        if patched.bookings().is_empty() { Ok(()) } else { Err(json!(patched)) }
    })
    .await;
    site.guest("ann", "general", "medium").await.unwrap();
    // The status is written in the pass that would have removed the gate.
    site.counts("general", "medium", [1, 1, 0, 1]).await;
    assert_eq!(site.gates("ann").await, [keys::GATE]);
    define(&site.client, true).await;
    site.placed("ann").await;
    site.counts("general", "medium", [1, 0, 1, 0]).await;
}
