//! The mirror of a delegated cluster, which is written as a whole or not at all.

use muster_core::action::ActionStatus;
use muster_core::cluster::Cluster;
use muster_core::event::{Event, Level};
use muster_core::ids::EngineId;
use muster_core::principal::Owner;
use muster_core::sample;
use muster_store::commands::{ActionEnd, Mirror, Mirrored, TakeDuty};
use muster_store::reads::ClusterQuery;
use muster_testkit::database_test;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{self, Harness, claim, living, record};
use crate::lists::event;

fn seen(engine: EngineId, cluster: &Cluster) -> Mirror {
    let mut after = cluster.clone();
    after.groups[0].desired = 7;
    after.updated_at = Some(harness::now(9_000));
    Mirror {
        duty: "observer".into(),
        engine,
        read_at: cluster.updated_at,
        new_nodes: vec![muster_core::node::Node { cluster_id: Some(cluster.id), ..sample::node(1) }],
        nodes: Vec::new(),
        gone_nodes: Vec::new(),
        events: Vec::new(),
        object: None,
        cluster: after,
    }
}

fn object(managed_by: Option<&str>) -> Value {
    json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": managed_by}}, "spec": {"note": "ä"}})
}

#[database_test]
async fn the_object_of_a_cluster_is_stored_with_its_row_and_goes_with_it(harness: Harness) {
    let store = &harness.store;
    let mut creation = harness::creation(1);
    if let Some(new) = &mut creation.cluster {
        new.cluster.flavor = Some("domino".to_owned());
    }
    store.accept(creation).await.unwrap();
    let engine = living(store, 9).await;
    assert!(store.take_duty(TakeDuty { name: "observer".into(), engine }).await.unwrap());
    let claimed = store.claim(claim(engine)).await.unwrap().remove(0);
    let mut end = record(&claimed);
    end.object = Some((harness::cluster(1).id, object(Some("kuberay-apiserver"))));
    end.end = Some(ActionEnd { status: ActionStatus::Succeeded, reason: String::new() });
    store.record(end).await.unwrap();
    let id = harness::cluster(1).id;
    let stored = async || {
        let json = store.cluster_objects(&[id]).await.unwrap().remove(&id);
        json.map(|json| serde_json::from_str::<Value>(&json).unwrap())
    };
    assert_eq!(stored().await, Some(object(Some("kuberay-apiserver"))));
    let managed = async || {
        let query = ClusterQuery { managed_by: Some("kuberay-apiserver".into()), ..ClusterQuery::default() };
        store.clusters(&query).await.unwrap().items.len()
    };
    assert_eq!(managed().await, 1);

    let present = store.cluster(id).await.unwrap().unwrap();
    let owner = Owner::of_scheme("domino", "ada");
    let mut changed = Mirror { object: Some(object(None)), ..seen(engine, &present) };
    (changed.cluster.owner, changed.cluster.user) = (owner.clone(), "ada".to_owned());
    assert_eq!(store.mirror(changed).await.unwrap(), Mirrored::Written);
    assert_eq!(stored().await, Some(object(None)));
    assert_eq!(managed().await, 0, "its label is gone");
    // The cluster is on the list of stored objects of its flavor, and on no other list.
    let listed = async |flavor: &str| {
        let all = ClusterQuery::default();
        let stored = store.stored_objects(&all, flavor).await.unwrap();
        let others = ClusterQuery { unless_stored_as: Some(flavor.to_owned()), ..all };
        let others = store.clusters(&others).await.unwrap().items;
        (stored.into_iter().map(|stored| stored.cluster).collect::<Vec<_>>(), others.len())
    };
    assert_eq!(listed("domino").await, (vec![id], 0));
    assert_eq!(listed("other").await, (Vec::new(), 1));
    let present = store.cluster(id).await.unwrap().unwrap();
    assert_eq!((&present.owner, present.user.as_str()), (&owner, "ada"));

    let mut gone = Mirror { new_nodes: Vec::new(), ..seen(engine, &present) };
    gone.cluster.deleted_at = Some(harness::now(9_500));
    assert_eq!(store.mirror(gone).await.unwrap(), Mirrored::Written);
    assert_eq!(stored().await, None);
}

#[database_test]
async fn it_is_written_only_by_the_holder_of_the_duty_while_no_action_holds_the_cluster(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let (id, engine) = (harness::cluster(1).id, living(store, 9).await);
    assert!(store.take_duty(TakeDuty { name: "observer".into(), engine }).await.unwrap());
    let claimed = store.claim(claim(engine)).await.unwrap().remove(0);
    let present = store.cluster(id).await.unwrap().unwrap();
    assert_eq!(store.mirror(seen(engine, &present)).await.unwrap(), Mirrored::Busy, "an action has it");
    let mut end = record(&claimed);
    let ended = Cluster { updated_at: Some(harness::now(5_000)), ..present.clone() };
    end.cluster = Some(ended.clone());
    end.end = Some(ActionEnd { status: ActionStatus::Succeeded, reason: String::new() });
    store.record(end).await.unwrap();
    assert_eq!(store.mirror(seen(engine, &present)).await.unwrap(), Mirrored::Busy, "it has changed since");
    let other = EngineId::from_uuid(Uuid::from_u128(77));
    assert_eq!(store.mirror(seen(other, &ended)).await.unwrap(), Mirrored::NotOurs);
    assert_eq!(store.members(id).await.unwrap(), []);
    assert_eq!(store.mirror(seen(engine, &ended)).await.unwrap(), Mirrored::Written);
    assert_eq!(store.cluster(id).await.unwrap().unwrap().desired(), 7);
    assert_eq!(store.members(id).await.unwrap().len(), 1);
}

#[database_test]
async fn a_repeated_event_keeps_its_time_and_gets_its_latest_data(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let (id, engine) = (harness::cluster(1).id, living(store, 9).await);
    assert!(store.take_duty(TakeDuty { name: "observer".into(), engine }).await.unwrap());
    let claimed = store.claim(claim(engine)).await.unwrap().remove(0);
    let mut end = record(&claimed);
    end.end = Some(ActionEnd { status: ActionStatus::Succeeded, reason: String::new() });
    store.record(end).await.unwrap();
    for count in 1..=2 {
        let present = store.cluster(id).await.unwrap().unwrap();
        let data = [("count".to_owned(), json!(count))].into_iter().collect();
        let repeated = Event { at: harness::now(count), data, ..event(5, Level::Info) };
        let mirror = Mirror { new_nodes: Vec::new(), events: vec![repeated], ..seen(engine, &present) };
        assert_eq!(store.mirror(mirror).await.unwrap(), Mirrored::Written);
    }
    let stored = store.event(event(5, Level::Info).id).await.unwrap().expect("the event");
    assert_eq!((stored.at, &stored.data["count"]), (harness::now(1), &json!(2)));
}
