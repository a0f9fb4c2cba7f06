//! Other operators of the same Machines: a Muster with another namespace, and leftover registrations of the published
//! operator.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use muster_machines::keys;
use muster_machines::run::MachinesSettings;
use muster_testkit::eventually;
use serde_json::json;

use crate::harness::{OURS, PATIENCE, Site, spec};

/// A webhook configuration of the published operator.
const LEFT: &str = "imperator-validating-webhook-configuration";

fn elsewhere(settings: &mut MachinesSettings) {
    "elsewhere".clone_into(&mut settings.namespace);
}

#[tokio::test]
async fn one_muster_serves_the_machines_of_a_kubernetes() {
    let Some(site) = Site::open().await else { return };
    // The published operator is searched in its own namespace, too.
    site.namespace(OURS, &json!({})).await;
    let now = Timestamp::now().to_string();
    let lease: Lease = serde_json::from_value(json!({"metadata": {"name": keys::PUBLISHED_LEASE},
        "spec": {"holderIdentity": "imperator-1", "leaseDurationSeconds": 3600, "renewTime": now}}))
    .unwrap();
    let leases = Api::<Lease>::namespaced(site.client.clone(), OURS);
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let refused = site.refused_start(elsewhere).await;
    assert!(refused.contains("another operator manages Machines: imperator-1"), "{refused}");
    leases.delete(keys::PUBLISHED_LEASE, &kube::api::DeleteParams::default()).await.unwrap();

    let first = site.replica("first").await;
    let refused = site.refused_start(elsewhere).await;
    let words = "another Muster serves the Machines of this Kubernetes from namespace imperator-system: first renewed";
    assert!(refused.contains(words), "{refused}");
    // Another replica of the same namespace starts; and once the first Muster has ended, so does one elsewhere.
    let replica = site.replica("second").await;
    replica.stop().await;
    first.stop().await;
    eventually("one elsewhere starts", PATIENCE, async || site.try_start("moved", elsewhere).await.map(drop))
        .await;
}

#[tokio::test]
async fn a_registration_of_the_published_operator_is_reported() {
    let Some(site) = Site::open().await else { return };
    let left: ValidatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": LEFT},
        "webhooks": [{
            "name": "vmachine.kb.io", "clientConfig": {"url": "https://127.0.0.1:1/validate"},
            "rules": [{"apiGroups": ["imperator.tenzen-y.io"], "apiVersions": ["v1alpha1"],
                "operations": ["CREATE"], "resources": ["machines"]}],
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }],
    }))
    .unwrap();
    Api::all(site.client.clone()).create(&PostParams::default(), &left).await.unwrap();
    let _replica = site.replica("one").await;
    let events = Api::<Event>::all(site.client.clone());
    let about = ListParams::default().fields(&format!("involvedObject.name={LEFT}"));
    eventually("the registration is reported", PATIENCE, async || {
        let notes: Vec<_> =
            events.list(&about).await.unwrap().items.into_iter().filter_map(|event| event.message).collect();
        let remedy = format!("kubectl delete validatingwebhookconfiguration {LEFT}");
        if notes.iter().any(|note| note.contains(&remedy)) { Ok(()) } else { Err(notes.join("; ")) }
    })
    .await;
}

#[tokio::test]
async fn guests_whose_namespace_loses_its_label_stay_protected_and_continue_when_it_returns() {
    let Some(site) = Site::open().await else { return };
    let _replica = site.replica("one").await;
    site.create_machine("general", &spec("medium", &["node-0"], 1)).await.unwrap();
    site.counts("general", "medium", [1, 1, 0, 0]).await;
    site.guest("ann", "general", "medium").await.unwrap();
    site.placed("ann").await;
    site.guest("bob", "general", "medium").await.unwrap();
    site.counts("general", "medium", [1, 0, 1, 1]).await;
    let namespaces = Api::<Namespace>::all(site.client.clone());
    let label = async |value: Option<&str>| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {keys::NAMESPACE_LABELS[0]: value}}}));
        namespaces.patch(crate::harness::GUESTS, &PatchParams::default(), &patch).await.unwrap();
    };
    label(None).await;
    site.counts("general", "medium", [1, 0, 1, 0]).await;
    site.is_reported("bob", "NotServed").await;
    // Both would be a slot too many once the label is back.
    let no_gate = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    let refused = site.pods().patch("bob", &PatchParams::default(), &no_gate).await.unwrap_err();
    assert!(refused.to_string().contains("is removed when the pod has a slot"), "{refused}");
    let no_guest = Patch::Merge(json!({"metadata": {"labels": {keys::POD_ROLE: null}}}));
    let refused = site.pods().patch("ann", &PatchParams::default(), &no_guest).await.unwrap_err();
    assert!(refused.to_string().contains("of a guest cannot be changed"), "{refused}");
    site.delete_guest("ann").await;
    site.counts("general", "medium", [1, 1, 0, 0]).await;
    assert_eq!(site.gates("bob").await, [keys::GATE]);
    label(Some(keys::ENABLED)).await;
    site.placed("bob").await;
}
