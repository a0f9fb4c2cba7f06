//! The life cycle of slots: reserved, assigned to a guest, waited for, and reserved again.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use muster_machines::keys;
use muster_machines::types::Machine;
use muster_testkit::eventually;
use serde_json::{Value, json};

use crate::harness::{GUESTS, OURS, PATIENCE, Site, refusal, spec};

#[tokio::test]
async fn guests_take_slots_and_give_them_back() {
    let Some(site) = Site::open().await else { return };
    let _replica = site.replica("one").await;
    site.create_machine("general", &spec("medium", &["node-0", "node-1"], 10)).await.unwrap();
    site.counts("general", "medium", [10, 10, 0, 0]).await;
    site.guest("ann", "general", "medium").await.unwrap();
    let node = site.placed("ann").await;
    assert!(["node-0", "node-1"].contains(&node.as_str()), "{node}");
    assert_eq!(site.gates("ann").await, Vec::<String>::new());
    site.counts("general", "medium", [10, 9, 1, 0]).await;
    a_guest_may_change_except_for_its_labels(&site).await;
    site.delete_guest("ann").await;
    site.counts("general", "medium", [10, 10, 0, 0]).await;

    let unknown = site.guest("bob", "general", "huge").await;
    assert!(refusal(unknown).contains("machine-group, general does not have machine-type, huge"));
    let unknown = site.guest("bob", "special", "medium").await;
    assert!(refusal(unknown).contains("failed to find machine-group special"));
    a_job_of_guests_completes(&site).await;
    site.counts("general", "medium", [10, 10, 0, 0]).await;
}

async fn a_guest_may_change_except_for_its_labels(site: &Site) {
    let relabel = async |key: &str, value: &str| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
        site.pods().patch("ann", &PatchParams::default(), &patch).await
    };
    relabel("team", "a").await.unwrap();
    assert!(refusal(relabel(keys::MACHINE_TYPE, "large").await).contains("of a guest cannot be changed"));
    let without_role = Patch::Merge(json!({"metadata": {"labels": {keys::POD_ROLE: null}}}));
    let without_role = site.pods().patch("ann", &PatchParams::default(), &without_role).await;
    assert!(refusal(without_role).contains("of a guest cannot be changed"));
    let with_status = Patch::Merge(json!({"metadata": {"labels": {keys::MACHINE_TYPE: "large"}}}));
    let with_status = site.pods().patch_status("ann", &PatchParams::default(), &with_status).await;
    assert!(refusal(with_status).contains("of a guest cannot be changed"));
}

async fn a_job_of_guests_completes(site: &Site) {
    let labels =
        json!({keys::MACHINE_GROUP: "general", keys::MACHINE_TYPE: "medium", keys::POD_ROLE: keys::GUEST});
    let pod = json!({
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.test/main:1"}]},
    });
    let job =
        json!({"metadata": {"name": "count"}, "spec": {"completions": 3, "parallelism": 3, "template": pod}});
    let jobs = Api::<Job>::namespaced(site.client.clone(), GUESTS);
    jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
    eventually("the Job completes", PATIENCE, async || {
        let status = jobs.get("count").await.unwrap().status.unwrap_or_default();
        if status.succeeded == Some(3) { Ok(()) } else { Err(json!(status)) }
    })
    .await;
}

#[tokio::test]
async fn a_guest_evicts_no_pods_of_others_from_nodes_without_a_taint() {
    let Some(site) = Site::open().await else { return };
    let _replica = site.replica("one").await;
    site.create_machine("general", &spec("medium", &["node-0"], 4)).await.unwrap();
    site.counts("general", "medium", [4, 4, 0, 0]).await;
    // It has the priority of reservations, and is younger.
    let other = json!({
        "metadata": {"name": "other"},
        "spec": {"nodeName": "node-0", "containers": [
            {"name": "main", "image": "i", "resources": {"requests": {"cpu": "7"}}}]},
    });
    let pods = Api::<Pod>::namespaced(site.client.clone(), "default");
    let created = pods.create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await.unwrap();
    site.guest("ann", "general", "medium").await.unwrap();
    site.placed("ann").await;
    let present = pods.get("other").await.expect("it was not evicted");
    assert_eq!(present.uid(), created.uid());
    assert_eq!(present.metadata.deletion_timestamp, None);
    site.counts("general", "medium", [4, 3, 1, 0]).await;
}

#[tokio::test]
async fn guests_beyond_the_slots_wait_in_order() {
    let Some(site) = Site::open().await else { return };
    let _replica = site.replica("one").await;
    site.create_machine("general", &spec("medium", &["node-0"], 2)).await.unwrap();
    site.counts("general", "medium", [2, 2, 0, 0]).await;
    for name in ["a", "b", "c", "d"] {
        site.guest(name, "general", "medium").await.unwrap();
    }
    site.placed("a").await;
    site.placed("b").await;
    site.counts("general", "medium", [2, 0, 2, 2]).await;
    assert_eq!(site.gates("c").await, [keys::GATE]);
    let events = Api::<Event>::namespaced(site.client.clone(), GUESTS);
    eventually("an event says its place", PATIENCE, async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let about = |event: &&Event| event.involved_object.name.as_deref() == Some("d");
        let said: Vec<String> = all.iter().filter(about).filter_map(|event| event.message.clone()).collect();
        if said.iter().any(|note| note == "waiting for slot 2 of medium") {
            Ok(())
        } else {
            Err(format!("{said:?}"))
        }
    })
    .await;
    let lifted = json!({"spec": {"schedulingGates": null}});
    let lifted = site.pods().patch("d", &PatchParams::default(), &Patch::Merge(lifted)).await;
    assert!(refusal(lifted).contains("is removed when the pod has a slot"));
    // An annotation is no booking.
    let claimed = json!({"metadata": {"annotations": {keys::BOOKED_AT: "2026-11-18T13:06:49.194524Z"}},
        "spec": {"schedulingGates": null}});
    let claimed = site.pods().patch("d", &PatchParams::default(), &Patch::Merge(claimed)).await;
    assert!(refusal(claimed).contains("is removed when the pod has a slot"));
    let larger = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "16"}, "limits": {"cpu": "16"}}}]}});
    let larger = site
        .pods()
        .patch_subresource("resize", "d", &PatchParams::default(), &Patch::Strategic(larger))
        .await;
    assert!(refusal(larger).contains("a guest has the amounts of its machine type"));
    for (gone, next) in [("b", "c"), ("a", "d")] {
        site.delete_guest(gone).await;
        site.placed(next).await;
    }
    site.counts("general", "medium", [2, 0, 2, 0]).await;

    // Removed objects do not affect running guests, and waiting ones continue when the objects are back.
    site.guest("e", "general", "medium").await.unwrap();
    site.patch_machine("general", json!({"spec": {"overflow": "deny"}})).await.unwrap();
    eventually("a guest beyond the slots is refused", PATIENCE, async || {
        match site.guest("f", "general", "medium").await {
            Err(kube::Error::Api(status)) if status.message.contains("there is no medium left") => Ok(()),
            Ok(_) => {
                site.delete_guest("f").await;
                Err("it is accepted".to_owned())
            }
            Err(other) => Err(other.to_string()),
        }
    })
    .await;
    let types = json!({"spec": {"machineTypes": [{"name": "other", "spec": {"cpu": "1", "memory": "1Gi"}, "available": 0}],
        "nodePool": [{"name": "node-0", "mode": "ready", "machineType": [{"name": "other"}]}]}});
    site.patch_machine("general", types).await.unwrap();
    let sets = Api::<StatefulSet>::namespaced(site.client.clone(), OURS);
    eventually("the set of the type is gone", PATIENCE, async || {
        let left = sets.list(&ListParams::default()).await.unwrap().items;
        let left: Vec<String> = left.iter().map(StatefulSet::name_any).collect();
        if left == ["other-general"] { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    site.counts("general", "medium", [0, 0, 2, 1]).await;
    assert_eq!(site.gates("e").await, [keys::GATE]);
    site.is_reported("e", "NoSlots").await;
    let mut back = spec("medium", &["node-0"], 3);
    back["overflow"] = "wait".into();
    site.patch_machine("general", json!({"spec": back})).await.unwrap();
    site.placed("e").await;
    site.counts("general", "medium", [3, 0, 3, 0]).await;
}

/// The terms of a guest's required node affinity.
fn terms(pod: &Pod) -> Vec<Value> {
    let terms = &json!(pod)["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"];
    terms.as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn the_webhook_concerns_guests_only() {
    let Some(site) = Site::open().await else { return };
    let replica = site.replica("one").await;
    site.create_machine("general", &spec("medium", &["node-0"], 2)).await.unwrap();
    let guest = json!({
        "metadata": {"name": "ann", "labels": {keys::MACHINE_GROUP: "general", keys::MACHINE_TYPE: "medium",
            keys::POD_ROLE: keys::GUEST, keys::INJECTING_CONTAINER: "main"}},
        "spec": {
            "containers": [{"name": "side", "image": "i"}, {"name": "main", "image": "i",
                "resources": {"requests": {"example.com/disk": "1", "cpu": "1"}, "limits": {"example.com/disk": "1"}}}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "Exists"}]},
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}]}}},
        },
    });
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let pod = site.pods().create(&dry, &serde_json::from_value(guest).unwrap()).await.unwrap();
    for term in terms(&pod) {
        let keys: Vec<_> =
            term["matchExpressions"].as_array().unwrap().iter().map(|one| one["key"].clone()).collect();
        assert!(
            keys.contains(&json!("imperator.tenzen-y.io/medium")) && keys.contains(&json!(keys::NODE_POOL)),
            "{term}"
        );
    }
    let shown = json!(pod);
    assert_eq!(shown["spec"]["containers"][0]["resources"], json!({}));
    let wanted = json!({"cpu": "6", "memory": "48Gi", "example.com/disk": "1"});
    assert_eq!(shown["spec"]["containers"][1]["resources"], json!({"requests": wanted, "limits": wanted}));
    assert_eq!(
        (&shown["spec"]["priority"], &shown["spec"]["priorityClassName"]),
        (&json!(1), &json!("muster-guest"))
    );

    let reservation = json!({"metadata": {"name": "r", "labels": {keys::POD_ROLE: keys::RESERVATION}},
        "spec": {"containers": [{"name": "main", "image": "i"}]}});
    let refused = site.pods().create(&dry, &serde_json::from_value(reservation).unwrap()).await;
    assert!(refusal(refused).contains("is for pods of namespace imperator-system only"));
    let machines = [
        (spec("medium", &["node-0"], 2), "node node-0 belongs to machine-group general"),
        (spec("medium", &["node-x"], 2), "failed to find node node-x in Kubernetes Cluster"),
        (spec("node-pool", &["node-1"], 2), "node-pool"),
    ];
    for (spec, words) in machines {
        let refused = refusal(site.create_machine("other", &spec).await);
        assert!(refused.contains(words), "{words}: {refused}");
    }

    let many = json!({"apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": "many", "labels": {keys::MACHINE_GROUP: "many"}},
        "spec": spec("medium", &["node-1"], 3_000_000_000)});
    let untyped = Api::<DynamicObject>::all_with(site.client.clone(), &ApiResource::erase::<Machine>(&()));
    let many = untyped.create(&PostParams::default(), &serde_json::from_value(many).unwrap()).await;
    let many = refusal(many);
    assert!(many.contains("machineTypes[0].available") && many.contains("2147483647"), "{many}");

    // While no server runs, guests are refused, and all other pods are created.
    replica.stop().await;
    assert!(refusal(site.guest("bob", "general", "medium").await).contains("failed calling webhook"));
    let plain =
        json!({"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    site.pods().create(&PostParams::default(), &serde_json::from_value(plain).unwrap()).await.unwrap();
}
