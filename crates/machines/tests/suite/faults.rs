//! Changes of nodes and guests by other programs, an unavailable Kubernetes, and changed clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use muster_core::time::Timestamp;
use muster_machines::keys;
use muster_machines::run::{Machines, WallClock};
use muster_machines::types::{Machine, MachineNodePool};
use muster_testkit::{Component, eventually};
use serde_json::{Value, json};

use crate::harness::{PATIENCE, Site, SystemClock, spec, unread};

const HOUR: i64 = 3600;

/// A server over a Machine of one slot.
async fn one_slot() -> Option<(Site, Machines)> {
    let site = Site::open().await?;
    let replica = site.replica("one").await;
    with_one_slot(&site).await;
    Some((site, replica))
}

/// Creates the Machine of one slot.
async fn with_one_slot(site: &Site) {
    site.create_machine("general", &spec("medium", &["node-0"], 1)).await.unwrap();
    site.counts("general", "medium", [1, 1, 0, 0]).await;
}

/// A clock that can be set, by seconds.
struct SetClock(AtomicI64);

impl WallClock for SetClock {
    fn now(&self) -> Timestamp {
        let micros = self.0.load(Ordering::Relaxed) * 1_000_000;
        Timestamp::from_micros(SystemClock.now().micros() + micros)
    }
}

async fn set_finalizers(site: &Site, guest: &str, finalizers: Value) {
    let patch = json!({"metadata": {"finalizers": finalizers}});
    site.pods().patch(guest, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test]
async fn marks_that_others_remove_come_back_and_a_guest_has_its_slot_until_it_is_gone() {
    let Some((site, _replica)) = one_slot().await else { return };
    let nodes = Api::<Node>::all(site.client.clone());
    let own = format!("{}/medium", keys::DOMAIN);
    for value in [Value::Null, "theirs".into()] {
        let patch = json!({"metadata": {"labels": {&own: value}}});
        nodes.patch("node-0", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        eventually("the node is marked again", PATIENCE, async || {
            let marked = nodes.get("node-0").await.unwrap().labels().get(&own).cloned();
            if marked.as_deref() == Some("general") { Ok(()) } else { Err(format!("{marked:?}")) }
        })
        .await;
    }

    site.guest("ann", "general", "medium").await.unwrap();
    site.placed("ann").await;
    set_finalizers(&site, "ann", json!(["example.test/keep"])).await;
    site.guest("bob", "general", "medium").await.unwrap();
    site.counts("general", "medium", [1, 0, 1, 1]).await;
    // kwok would remove the finalizer.
    site.kubernetes.freeze(Component::Kwok).await;
    site.delete_guest("ann").await;
    // One more guest is counted after the deletion was seen.
    site.guest("eve", "general", "medium").await.unwrap();
    site.counts("general", "medium", [1, 0, 1, 2]).await;
    assert_eq!(site.gates("bob").await, [keys::GATE], "ann is being deleted, and is not gone");
    set_finalizers(&site, "ann", Value::Null).await;
    site.placed("bob").await;
    assert_eq!(site.gates("eve").await, [keys::GATE]);
}

#[tokio::test]
async fn a_guest_whose_machine_is_deleted_waits_and_one_that_claims_a_booking_counts_nowhere() {
    let Some((site, _replica)) = one_slot().await else { return };
    // No webhook is called for pods of this namespace.
    let claims = json!({
        "metadata": {"name": "claims", "annotations": {keys::BOOKED_AT: "2026-11-18T13:06:49.194524Z"}, "labels": {
            keys::MACHINE_GROUP: "general", keys::MACHINE_TYPE: "medium", keys::POD_ROLE: keys::GUEST}},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    });
    let elsewhere = Api::<Pod>::namespaced(site.client.clone(), "default");
    elsewhere.create(&PostParams::default(), &serde_json::from_value(claims).unwrap()).await.unwrap();
    site.guest("ann", "general", "medium").await.unwrap();
    site.placed("ann").await;
    site.guest("bob", "general", "medium").await.unwrap();
    site.counts("general", "medium", [1, 0, 1, 1]).await;

    let machines = Api::<Machine>::all(site.client.clone());
    machines.delete("general", &DeleteParams::background()).await.unwrap();
    site.is_reported("bob", "NoSlots").await;
    eventually("the Machine is gone", PATIENCE, async || {
        let left = machines.get_opt("general").await.map_err(|error| unread(&error))?;
        if left.is_none() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    site.delete_guest("ann").await;
    site.create_machine("general", &spec("medium", &["node-0"], 1)).await.unwrap();
    site.placed("bob").await;
    site.counts("general", "medium", [1, 0, 1, 0]).await;
}

#[tokio::test]
async fn machines_that_were_created_without_a_webhook_do_not_fight_for_groups_and_nodes() {
    let Some(site) = Site::open().await else { return };
    site.create_machine("general", &spec("medium", &["node-0"], 1)).await.unwrap();
    let _replica = site.replica("one").await;
    site.counts("general", "medium", [1, 1, 0, 0]).await;
    site.create_unchecked("rival", "rival", &spec("large", &["node-0", "node-1"], 1)).await;
    site.counts("rival", "large", [1, 1, 0, 0]).await;
    let pools = Api::<MachineNodePool>::all(site.client.clone());
    eventually("the rival is refused the node", PATIENCE, async || {
        let status =
            pools.get("rival-node-pool").await.map_err(|error| unread(&error))?.status.unwrap_or_default();
        let words = "node node-0 belongs to machine-group general";
        let is_said = status.conditions.iter().any(|condition| condition.message.contains(words));
        if is_said { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    let node = Api::<Node>::all(site.client.clone()).get("node-0").await.unwrap();
    assert_eq!(node.annotations().get(keys::MACHINE_GROUP).map(String::as_str), Some("general"));
    assert!(!node.labels().contains_key(&format!("{}/large", keys::DOMAIN)), "{:?}", node.labels());

    // The younger of two Machines of one group is ignored.
    site.create_unchecked("younger", "general", &spec("small", &["node-2"], 1)).await;
    let events = Api::<Event>::all(site.client.clone());
    eventually("the younger one is said to be ignored", PATIENCE, async || {
        let listed = events.list(&ListParams::default().fields("reason=DuplicateGroup")).await.unwrap().items;
        let about: Vec<_> = listed.into_iter().filter_map(|event| event.involved_object.name).collect();
        if about == ["younger"] { Ok(()) } else { Err(format!("{about:?}")) }
    })
    .await;
    site.counts("general", "medium", [1, 1, 0, 0]).await;
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_for_a_while_ends_nothing() {
    let Some((site, replica)) = one_slot().await else { return };
    site.guest("ann", "general", "medium").await.unwrap();
    site.placed("ann").await;
    site.guest("bob", "general", "medium").await.unwrap();
    site.counts("general", "medium", [1, 0, 1, 1]).await;
    site.kubernetes.freeze(Component::ApiServer).await;
    eventually("a leader that cannot renew its Lease stops leading", PATIENCE, async || {
        if replica.is_leader() { Err("it leads") } else { Ok(()) }
    })
    .await;
    site.kubernetes.thaw(Component::ApiServer).await;
    eventually("it leads again", PATIENCE, async || {
        if replica.is_leader() { Ok(()) } else { Err("it does not lead") }
    })
    .await;
    site.counts("general", "medium", [1, 0, 1, 1]).await;
    site.delete_guest("ann").await;
    site.placed("bob").await;
    site.counts("general", "medium", [1, 0, 1, 0]).await;
}

#[tokio::test]
async fn a_clock_that_is_set_gives_no_slot_twice() {
    let Some(site) = Site::open().await else { return };
    let clock = Arc::new(SetClock(AtomicI64::new(0)));
    let replica = site.replica_with("one", |settings| settings.clock = clock.clone()).await;
    with_one_slot(&site).await;
    site.guest("ann", "general", "medium").await.unwrap();
    site.placed("ann").await;
    for (waiting, (name, set)) in (1..).zip([("bob", 5 * HOUR), ("eve", -5 * HOUR)]) {
        clock.0.store(set, Ordering::Relaxed);
        site.guest(name, "general", "medium").await.unwrap();
        site.counts("general", "medium", [1, 0, 1, waiting]).await;
        assert!(replica.is_leader());
        assert_eq!(site.gates(name).await, [keys::GATE]);
    }
    site.delete_guest("ann").await;
    site.counts("general", "medium", [1, 0, 1, 1]).await;
}
