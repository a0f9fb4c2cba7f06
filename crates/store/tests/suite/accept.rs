//! Accepting actions: names, quotas, conflicts, repeated requests.

use crate::harness::{self, Harness, claim, creation, living, request};
use crate::lists::deleted;
use muster_core::action::{ActionKind, ActionStatus, Cause, Control, OnConflict};
use muster_core::ids::ProfileId;
use muster_core::profile::Profile;
use muster_core::sample;
use muster_store::StoreError;
use muster_store::commands::{
    Accept, ActionEnd, DeleteProfile, InsertProfile, Record, RequestKey, Signal, SignalKind,
};
use muster_testkit::database_test;
use serde_json::json;
use uuid::Uuid;

#[database_test]
async fn what_was_accepted_is_read_back(harness: Harness) {
    let accepted = harness.create(1).await;
    assert_eq!(harness.store.action(accepted.id).await.unwrap(), Some(accepted));
    let cluster = harness::cluster(1);
    assert_eq!(harness.store.cluster(cluster.id).await.unwrap(), Some(cluster));
}

#[database_test]
async fn a_name_that_is_taken_is_refused_and_nothing_is_stored(harness: Harness) {
    harness.create(1).await;
    let mut second = creation(2);
    second.cluster.as_mut().unwrap().cluster.name = "c1".to_owned();
    let action = second.action.id;
    let error = harness.store.accept(second).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cluster 'c1' already exists in namespace 'demo': choose another name, or delete it first"
    );
    assert_eq!(harness.store.action(action).await.unwrap(), None);
    assert_eq!(harness.store.cluster(harness::cluster(2).id).await.unwrap(), None);
}

#[database_test]
async fn of_many_that_want_one_name_at_once_one_gets_it(harness: Harness) {
    let tries = (1..=8).map(|number| {
        let mut accept = creation(number);
        accept.cluster.as_mut().unwrap().cluster.name = "same".to_owned();
        harness.store.accept(accept)
    });
    let results = futures::future::join_all(tries).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let refused = |result: &Result<_, StoreError>| matches!(result, Err(StoreError::NameTaken { .. }));
    assert_eq!(results.iter().filter(|result| refused(result)).count(), 7);
}

#[database_test]
async fn a_project_has_no_more_clusters_than_its_quota(harness: Harness) {
    harness.create(1).await;
    let mut second = creation(2);
    second.cluster.as_mut().unwrap().quota = Some(1);
    let error = harness.store.accept(second).await.unwrap_err();
    assert!(matches!(error, StoreError::OverQuota { count: 1, limit: 1, .. }), "{error}");
}

#[database_test]
async fn clusters_that_others_made_do_not_count(harness: Harness) {
    harness.create(1).await;
    let object = harness::cluster(1).id.to_string();
    let observed = format!("UPDATE clusters SET observed = '{{\"object\":\"{object}\"}}'");
    harness.execute(&observed).await;
    let mut second = creation(2);
    second.cluster.as_mut().unwrap().quota = Some(1);
    harness.store.accept(second).await.unwrap();
}

#[database_test]
async fn the_same_request_gets_the_first_answer_and_another_body_is_refused(harness: Harness) {
    let key = |digest: &str| RequestKey {
        principal: "sample/ann".to_owned(),
        request_id: "r1".to_owned(),
        digest: digest.to_owned(),
    };
    let first = harness.store.accept(Accept { request: Some(key("x")), ..creation(1) }).await.unwrap();
    assert!(!first.replayed);
    let again = harness.store.accept(Accept { request: Some(key("x")), ..creation(2) }).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.action.id, first.action.id);
    let other = harness.store.accept(Accept { request: Some(key("y")), ..creation(3) }).await;
    assert!(matches!(other, Err(StoreError::RequestIdReused(_))), "{other:?}");
}

#[database_test]
async fn a_forced_deletion_that_joins_another_makes_it_forced(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let delete = |number: u128, inputs: serde_json::Value| {
        let mut delete =
            request(number, ActionKind::ClusterDelete, harness::cluster(1).id, OnConflict::Preempt);
        delete.action.inputs = inputs;
        delete
    };
    let first = store.accept(delete(2, json!({}))).await.unwrap().action;
    let joined = store.accept(delete(3, json!({"force": true}))).await.unwrap();
    assert_eq!((joined.action.id, joined.replayed), (first.id, true));
    assert_eq!(joined.action.inputs, json!({"force": true}));
    // A deletion without force that joins does not undo the force.
    assert_eq!(store.accept(delete(4, json!({}))).await.unwrap().action.inputs, json!({"force": true}));
    assert_eq!(store.action(first.id).await.unwrap().unwrap().inputs, json!({"force": true}));
}

#[database_test]
async fn an_action_that_is_being_cancelled_cannot_be_suspended_any_more(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let claimed = store.claim(claim(living(store, 1).await)).await.unwrap().remove(0);
    let delete = request(2, ActionKind::ClusterDelete, harness::cluster(1).id, OnConflict::Preempt);
    store.accept(delete).await.unwrap();
    let id = claimed.action.id;
    let suspend = Signal { id, kind: SignalKind::Suspend, now: harness::now(3_000), request: None };
    let refused = store.signal(suspend).await;
    assert!(matches!(refused, Err(StoreError::WrongState { .. })), "{refused:?}");
    assert_eq!(store.action(id).await.unwrap().unwrap().control, Some(Control::Cancel));
}

#[database_test]
async fn a_repeated_signal_gets_the_first_answer(harness: Harness) {
    let store = &harness.store;
    let action = harness.create(1).await;
    let signal = |kind: SignalKind, digest: &str| {
        let request = RequestKey {
            principal: "sample/ann".to_owned(),
            request_id: "r1".to_owned(),
            digest: digest.to_owned(),
        };
        store.signal(Signal { id: action.id, kind, now: harness::now(3_000), request: Some(request) })
    };
    let suspended = signal(SignalKind::Suspend, "suspend").await.unwrap();
    assert_eq!(suspended.status, ActionStatus::Suspended);
    let resume = Signal { id: action.id, kind: SignalKind::Resume, now: harness::now(4_000), request: None };
    store.signal(resume).await.unwrap();
    // The retry of a request that was executed, and whose effect another request has undone since.
    let again = signal(SignalKind::Suspend, "suspend").await.unwrap();
    assert_eq!((again.id, again.status), (action.id, ActionStatus::Ready), "it was not suspended twice");
    let other = signal(SignalKind::Cancel, "cancel").await;
    assert!(matches!(other, Err(StoreError::RequestIdReused(_))), "{other:?}");
}

#[database_test]
async fn rejecting_names_the_users_action_that_is_in_the_way(harness: Harness) {
    let holder = harness.create(1).await;
    let cluster = harness::cluster(1).id;
    let second = request(2, ActionKind::ClusterResize, cluster, OnConflict::Reject);
    let StoreError::Conflict(actions) = harness.store.accept(second).await.unwrap_err() else {
        panic!("no conflict")
    };
    assert_eq!(actions.iter().map(|action| action.id).collect::<Vec<_>>(), [holder.id]);
    let queued = request(3, ActionKind::ClusterResize, cluster, OnConflict::Queue);
    assert_eq!(harness.store.accept(queued).await.unwrap().action.status, ActionStatus::Ready);
}

#[database_test]
async fn preempting_ends_pending_actions_and_signals_running_ones(harness: Harness) {
    let store = &harness.store;
    let running = harness.create(1).await;
    let engine = living(store, 9).await;
    assert_eq!(store.claim(claim(engine)).await.unwrap().len(), 1);
    let cluster = harness::cluster(1).id;
    let waiting =
        store.accept(request(2, ActionKind::ClusterResize, cluster, OnConflict::Queue)).await.unwrap().action;
    store.accept(request(3, ActionKind::ClusterDelete, cluster, OnConflict::Preempt)).await.unwrap();
    let status = |id| async move { store.action(id).await.unwrap().unwrap() };
    assert_eq!(status(waiting.id).await.status, ActionStatus::Cancelled);
    let running = status(running.id).await;
    assert_eq!((running.status, running.control), (ActionStatus::Running, Some(Control::Cancel)));
}

#[database_test]
async fn garbage_is_collected_of_deleted_clusters_only_and_by_one_action_at_a_time(harness: Harness) {
    let store = &harness.store;
    let collection = |number| {
        let cluster = harness::cluster(1).id;
        let mut accept = request(number, ActionKind::ClusterDelete, cluster, OnConflict::Queue);
        accept.action.cause = Cause::Healing;
        accept
    };
    harness.create(1).await;
    let of_a_living_one = store.accept(collection(2)).await;
    assert!(matches!(of_a_living_one, Err(StoreError::NotFound { .. })), "{of_a_living_one:?}");
    deleted(&harness, 1).await;
    store.accept(collection(3)).await.expect("a deleted cluster may have left something");
    let second = store.accept(collection(4)).await;
    assert!(matches!(second, Err(StoreError::Conflict(_))), "{second:?}");
    let user =
        store.accept(request(5, ActionKind::ClusterDelete, harness::cluster(1).id, OnConflict::Queue)).await;
    assert!(matches!(user, Err(StoreError::NotFound { .. })), "{user:?}");
}

#[database_test]
async fn healing_yields_to_users_and_is_never_beside_them(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let engine = living(store, 9).await;
    let created = store.claim(claim(engine)).await.unwrap().remove(0);
    let healing = |number| {
        let mut accept =
            request(number, ActionKind::ClusterRecover, harness::cluster(1).id, OnConflict::Queue);
        accept.action.cause = Cause::Healing;
        accept
    };
    let beside = store.accept(healing(2)).await;
    assert!(matches!(beside, Err(StoreError::Conflict(_))), "{beside:?}");
    let end = ActionEnd { status: ActionStatus::Succeeded, reason: String::new() };
    store.record(Record { end: Some(end), ..harness::record(&created) }).await.unwrap();
    let first = store.accept(healing(3)).await.unwrap().action;
    assert!(matches!(store.accept(healing(4)).await, Err(StoreError::Conflict(_))), "two healings at once");
    let user = request(5, ActionKind::ClusterResize, harness::cluster(1).id, OnConflict::Reject);
    store.accept(user).await.expect("healing causes no refusal");
    assert_eq!(store.action(first.id).await.unwrap().unwrap().status, ActionStatus::Cancelled);
}

#[database_test]
async fn a_request_refers_to_profiles_that_exist(harness: Harness) {
    let mut accept = creation(1);
    let new = accept.cluster.as_mut().expect("a cluster");
    let (profile, cluster) = (new.profile.take().expect("a profile"), new.cluster.id);
    let refused = harness.store.accept(accept.clone()).await.expect_err("no profile");
    assert!(matches!(refused, StoreError::NotFound { kind: "profile", .. }), "{refused}");
    assert_eq!(harness.store.cluster(cluster).await.unwrap(), None, "nothing is left of it");
    harness.store.insert_profile(InsertProfile { profile, events: Vec::new() }).await.expect("a profile");
    harness.store.accept(accept).await.expect("accepted");
}

#[database_test]
async fn a_profile_that_an_open_action_refers_to_is_in_use(harness: Harness) {
    harness.create(1).await;
    let profile = Profile { id: ProfileId::from_uuid(Uuid::from_u128(77)), ..sample::profile() };
    let store = &harness.store;
    store
        .insert_profile(InsertProfile { profile: profile.clone(), events: Vec::new() })
        .await
        .expect("a profile");
    let id = harness::cluster(1).id;
    let mut update = request(2, ActionKind::ClusterUpdate, id, OnConflict::Queue);
    update.action.inputs = json!({"profile_id": profile.id, "profile_only": true});
    store.accept(update).await.expect("accepted");
    let delete = || store.delete_profile(DeleteProfile { id: profile.id, events: Vec::new() });
    assert!(!delete().await.unwrap(), "the update is about to use it");
    let cancel = Signal {
        id: harness::action_id(2),
        kind: SignalKind::Cancel,
        now: harness::now(3_000),
        request: None,
    };
    store.signal(cancel).await.expect("cancelled");
    assert!(delete().await.unwrap(), "no action refers to it");
}

#[database_test]
async fn actions_yield_to_those_that_run_after_them_whichever_was_accepted_first(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let cluster = harness::cluster(1).id;
    let resize = |number: u128, created_at: i64| {
        let mut accept = request(number, ActionKind::ClusterResize, cluster, OnConflict::Queue);
        accept.action.created_at = harness::now(created_at);
        accept
    };
    let [first, second, third] = [resize(11, 1_000_001), resize(12, 1_000_002), resize(13, 1_000_003)];
    let ids = [first.action.id, second.action.id, third.action.id];
    for accept in [second, third, first] {
        store.accept(accept).await.unwrap();
    }
    let mut controls = Vec::new();
    for id in ids {
        controls.push(store.action(id).await.unwrap().unwrap().control);
    }
    assert_eq!(controls, [Some(Control::Yield), Some(Control::Yield), None]);
}
