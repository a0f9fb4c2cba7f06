//! Policies and their bindings.

use muster_core::action::ActionStatus;
use muster_core::ids::{BindingId, PolicyId};
use muster_core::policy::{Binding, Policy};
use muster_store::commands::{ActionEnd, BindingChange, CreatePolicy, DeletePolicy, Removed, RenamePolicy};
use muster_store::reads::{BindingQuery, PolicyQuery, PolicySort};
use muster_store::{Direction, Store};
use muster_testkit::database_test;
use serde_json::{Map, json};
use uuid::Uuid;

use crate::harness::{self, Harness, claim, living, record};

/// A policy whose id begins with its number.
pub(crate) fn policy(number: u128, name: &str, kind: &str) -> Policy {
    Policy {
        id: PolicyId::from_uuid(Uuid::from_u128(number << 96)),
        name: name.to_owned(),
        kind: kind.to_owned(),
        project: "demo".to_owned(),
        user: "ann".to_owned(),
        spec: Map::new(),
        data: Map::new(),
        created_at: harness::now(i64::try_from(number).expect("a small number")),
        updated_at: None,
    }
}

pub(crate) async fn create(store: &Store, policy: &Policy) {
    let command = CreatePolicy { policy: policy.clone(), events: Vec::new() };
    store.create_policy(command).await.expect("a new policy");
}

fn binding(number: u128, policy: &Policy) -> Binding {
    Binding {
        id: BindingId::from_uuid(Uuid::from_u128(number)),
        cluster_id: harness::cluster(1).id,
        policy: policy.clone(),
        enabled: true,
        priority: 400,
        data: Map::new(),
        last_op: None,
    }
}

fn put(binding: &Binding) -> BindingChange {
    BindingChange::Put(Box::new(binding.clone()))
}

#[database_test]
async fn policies_are_listed_by_what_is_asked(harness: Harness) {
    let store = &harness.store;
    let all =
        [policy(1, "c", "x-1.0"), policy(2, "a", "y-1.0"), policy(3, "b", "x-1.0"), policy(4, "a", "x-1.0")];
    for policy in &all {
        create(store, policy).await;
    }
    let demo = PolicyQuery { project: Some("demo".to_owned()), ..PolicyQuery::default() };
    let listed = async |query: PolicyQuery| {
        let policies = store.policies(&query).await.expect("a list");
        policies
            .iter()
            .map(|policy| all.iter().position(|one| one.id == policy.id).expect("ours") + 1)
            .collect()
    };
    let by_name = vec![(PolicySort::Name, Direction::Ascending)];
    let cases: Vec<(PolicyQuery, Vec<usize>)> = vec![
        (demo.clone(), vec![1, 2, 3, 4]),
        (PolicyQuery { limit: Some(2), ..demo.clone() }, vec![1, 2]),
        (PolicyQuery { limit: Some(0), ..demo.clone() }, vec![]),
        (PolicyQuery { limit: Some(2), marker: Some(all[1].id), ..demo.clone() }, vec![3, 4]),
        (PolicyQuery { sort: by_name.clone(), ..demo.clone() }, vec![2, 4, 3, 1]),
        (PolicyQuery { sort: by_name, marker: Some(all[3].id), ..demo.clone() }, vec![3, 1]),
        (
            PolicyQuery { sort: vec![(PolicySort::Type, Direction::Descending)], ..demo.clone() },
            vec![2, 1, 3, 4],
        ),
        (PolicyQuery { names: vec!["a".to_owned(), "b".to_owned()], ..demo.clone() }, vec![2, 3, 4]),
        (PolicyQuery { types: vec!["y-1.0".to_owned()], ..demo.clone() }, vec![2]),
        (PolicyQuery { marker: Some(policy(9, "", "").id), ..demo }, vec![1, 2, 3, 4]),
        (PolicyQuery { project: Some("other".to_owned()), ..PolicyQuery::default() }, vec![]),
    ];
    for (query, expected) in cases {
        let shown = format!("{query:?}");
        let found: Vec<usize> = listed(query).await;
        assert_eq!(found, expected, "{shown}");
    }
}

#[database_test]
async fn a_policy_is_renamed_and_removed_unless_a_cluster_has_it(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let policy = policy(1, "one", "a-1.0");
    create(store, &policy).await;
    let now = harness::now(5);
    let rename = RenamePolicy { id: policy.id, name: "uno".to_owned(), now, events: Vec::new() };
    let renamed = store.rename_policy(rename.clone()).await.unwrap();
    let expected = Policy { name: "uno".to_owned(), updated_at: Some(now), ..policy.clone() };
    assert_eq!(renamed, Some(expected));
    store.bind(binding(1, &policy)).await.unwrap();
    let delete = DeletePolicy { id: policy.id, events: Vec::new() };
    assert_eq!(store.delete_policy(delete.clone()).await.unwrap(), Removed::InUse);
    crate::lists::deleted(&harness, 1).await;
    assert_eq!(store.delete_policy(delete.clone()).await.unwrap(), Removed::Done, "its cluster is history");
    assert_eq!(store.delete_policy(delete).await.unwrap(), Removed::Missing);
    assert_eq!(store.rename_policy(rename).await.unwrap(), None);
}

#[database_test]
async fn bindings_change_with_the_action_that_changes_them(harness: Harness) {
    let store = &harness.store;
    harness.create(1).await;
    let (one, two) = (policy(1, "one", "a-1.0"), policy(2, "two", "b-1.0"));
    create(store, &one).await;
    create(store, &two).await;
    let engine = living(store, 9).await;
    let claimed = store.claim(claim(engine)).await.unwrap().remove(0);
    let (first, second) = (binding(1, &one), Binding { priority: 100, ..binding(2, &two) });
    let mut writes = record(&claimed);
    writes.bindings = vec![put(&first), put(&second)];
    store.record(writes).await.unwrap();
    let cluster = harness::cluster(1).id;
    assert_eq!(store.bindings(cluster).await.unwrap(), [second.clone(), first.clone()], "by priority");
    let changed = Binding {
        enabled: false,
        data: json!({"a": 1}).as_object().unwrap().clone(),
        last_op: Some(harness::now(7)),
        ..first.clone()
    };
    let mut writes = record(&claimed);
    writes.bindings = vec![put(&changed)];
    store.record(writes).await.unwrap();
    assert_eq!(store.binding(cluster, one.id).await.unwrap(), Some(changed.clone()));
    let listed = async |query: BindingQuery| store.list_bindings(cluster, &query).await.expect("a list");
    assert_eq!(listed(BindingQuery::default()).await, [changed.clone(), second.clone()]);
    let by_enabled = Some(Direction::Descending);
    assert_eq!(
        listed(BindingQuery { by_enabled, ..BindingQuery::default() }).await,
        [second.clone(), changed.clone()]
    );
    assert_eq!(
        listed(BindingQuery { enabled: Some(false), ..BindingQuery::default() }).await,
        std::slice::from_ref(&changed)
    );
    let named = BindingQuery { policy_names: vec!["two".to_owned()], ..BindingQuery::default() };
    assert_eq!(listed(named).await, std::slice::from_ref(&second));
    let typed = BindingQuery { policy_types: vec!["a-1.0".to_owned()], ..BindingQuery::default() };
    assert_eq!(listed(typed).await, std::slice::from_ref(&changed));
    let mut writes = record(&claimed);
    writes.bindings = vec![BindingChange::Remove(changed.id)];
    writes.end = Some(ActionEnd { status: ActionStatus::Succeeded, reason: String::new() });
    store.record(writes).await.unwrap();
    assert_eq!(store.bindings(cluster).await.unwrap(), [second]);
    assert_eq!(store.binding(cluster, one.id).await.unwrap(), None);
}
