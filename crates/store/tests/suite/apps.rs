//! Lists of apps.

use muster_core::app::{App, AppKind, AppState};
use muster_core::ids::{AppId, InstanceId};
use muster_core::sample;
use muster_store::commands::{EndApp, RegisterApp};
use muster_store::reads::{AppQuery, AppSort};
use muster_store::{Direction, Store};
use muster_testkit::database_test;
use uuid::Uuid;

use crate::harness::{self, Harness};

async fn register(store: &Store, number: u128, instance: &InstanceId) -> AppId {
    let app = App {
        id: AppId::from_uuid(Uuid::from_u128(number)),
        instance: instance.clone(),
        namespace: "n".to_owned(),
        name: format!("a{number}"),
        kind: AppKind::Command,
        uid: format!("uid-{number}"),
        project: "p".to_owned(),
        owner: sample::principal().as_owner(),
        process: None,
        lease_until: None,
        cluster_name: String::new(),
        cluster_id: None,
        state: AppState::Running,
        created_at: harness::now(1_000),
        ended_at: None,
    };
    store.register_app(RegisterApp { app, lease: None, cluster: None }).await.expect("an app").id
}

#[database_test]
async fn apps_are_listed_by_their_instance_and_without_those_that_have_ended(harness: Harness) {
    let store = &harness.store;
    let (own, other) = (harness::cluster(1).instance, InstanceId::new("local", "other"));
    for (number, instance) in [(1, &own), (2, &other), (3, &own)] {
        let id = register(store, number, instance).await;
        if number == 3 {
            store.end_app(EndApp { id, now: harness::now(2_000) }).await.expect("its end");
        }
    }
    let names = async |instance: Option<&InstanceId>, open| {
        let sort = vec![(AppSort::Name, Direction::Ascending)];
        let query = AppQuery { instance: instance.cloned(), open, sort, ..AppQuery::default() };
        let page = store.apps(&query).await.expect("a page");
        page.items.into_iter().map(|app| app.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(None, false).await, "a1 a2 a3");
    assert_eq!(names(Some(&own), false).await, "a1 a3");
    assert_eq!(names(Some(&own), true).await, "a1");
    assert_eq!(names(None, true).await, "a1 a2");
}
