//! A database that a newer version writes, too: this version must preserve values that it does not know.

use muster_core::action::{ActionKind, ActionStatus, Control};
use muster_core::ids::ActionId;
use muster_core::string_enum::Stored as _;
use muster_store::Store;
use muster_store::commands::{Claim, Claimed, Record, Signal, SignalKind};
use muster_store::reads::{ActionQuery, ClusterQuery};
use muster_testkit::database_test;
use serde_json::{Value, json};

use crate::harness::{self, Kind, living};
use crate::raw::{RawDatabase, Row, TABLES, Table, set};
use crate::rewrite::{rewrite, take_over};
use crate::versions::{compare, version_1};

/// Columns that hold a value of an enumeration.
const WORDS: &[(&str, &[&str])] = &[
    ("actions", &["kind", "target_kind", "status", "cause", "door", "control"]),
    ("clusters", &["status", "framework"]),
    ("nodes", &["status", "role"]),
    ("events", &["level", "object_kind", "door"]),
    ("receivers", &["type", "action"]),
];

/// The columns that hold JSON objects, with the pointers to the maps inside them that a newer version may extend.
const OBJECTS: &[(&str, &str, &[&str])] = &[
    ("clusters", "observed", &["", "/made/default", "/made/default/shape"]),
    ("clusters", "spec", &[""]),
    ("clusters", "data", &[""]),
    ("worker_groups", "shape", &[""]),
    ("worker_groups", "spec", &["", "/node"]),
    ("nodes", "data", &["", "/placement"]),
    ("actions", "data", &["", "/deletion", "/creation", "/update", "/recovery", "/delegated", "/hooks"]),
    ("actions", "inputs", &[""]),
    ("profiles", "properties", &["", "/head", "/worker"]),
    ("policies", "spec", &["", "/properties"]),
    ("bindings", "data", &[""]),
    ("receivers", "params", &[""]),
];

/// The database of version 1 with an unknown column, field or value in every place where a newer version may have one.
/// The running action that a test takes over is not changed.
async fn newer(kind: Kind) -> Option<RawDatabase> {
    let database = version_1(kind).await?;
    let columns = TABLES
        .iter()
        .map(|(table, _)| format!("ALTER TABLE {table} ADD COLUMN newer TEXT DEFAULT 'kept';\n"));
    let mut script = columns.collect::<Vec<_>>().concat();
    for (table, column, places) in OBJECTS {
        for (key, row) in database.table(table).await {
            let mut value = row[*column].clone();
            for place in *places {
                if let Some(Value::Object(map)) = value.pointer_mut(place) {
                    map.insert("newer".to_owned(), json!({"of": [1, null, "a newer version"]}));
                }
            }
            script += &set(table, &key, column, &value.to_string());
        }
    }
    for (table, columns) in WORDS {
        let rows = database.table(table).await;
        let is_spared = |row: &Row| *table == "actions" && row["status"] == "RUNNING";
        for (key, row) in rows.iter().filter(|(_, row)| !is_spared(row)).step_by(2) {
            for column in columns.iter().filter(|column| !row[**column].is_null()) {
                script += &set(table, key, column, "newer");
            }
        }
    }
    // This version gives an action of an unknown kind the priority 0.
    script += "UPDATE actions SET priority = 0 WHERE kind = 'newer';\n";
    for (key, row) in database.table("actions").await {
        let mut principal = row["principal"].clone();
        principal["roles"].as_array_mut()?.push("newer".into());
        script += &set("actions", &key, "principal", &principal.to_string());
    }
    database.execute(&script).await;
    Some(database)
}

#[database_test(newer)]
async fn what_a_newer_version_wrote_survives_being_read_and_written(database: RawDatabase) {
    let store = database.open().await;
    let ticket = take_over(&store).await;
    let mut before: Vec<(&str, Table)> = Vec::new();
    for (table, _) in TABLES {
        before.push((table, database.table(table).await));
    }
    rewrite(&store, ticket).await;
    for (table, before) in before {
        compare(table, &before, &database.table(table).await);
    }
}

#[database_test(newer)]
async fn a_group_that_is_changed_keeps_the_columns_of_a_newer_version(database: RawDatabase) {
    let store = database.open().await;
    let ticket = take_over(&store).await;
    let clusters = store.clusters(&ClusterQuery::default()).await.unwrap().items;
    let mut cluster = clusters.into_iter().find(|cluster| cluster.groups.len() > 1).expect("two groups");
    cluster.groups.reverse();
    cluster.groups[0].desired += 1;
    let write =
        Record { cluster: Some(cluster.clone()), ..Record::new(ticket, harness::now(1_800_000_000_000_002)) };
    store.record(write).await.unwrap();
    let read = store.cluster(cluster.id).await.unwrap().unwrap();
    assert_eq!(read.groups, cluster.groups);
    let groups = database.table("worker_groups").await;
    let of_cluster = |row: &&Row| row["cluster_id"] == cluster.id.to_string();
    for group in groups.values().filter(of_cluster) {
        assert_eq!((&group["newer"], &group["shape"]["newer"]["of"][0]), (&json!("kept"), &json!(1)));
    }
}

/// Claims all actions that this version can execute, of all instances in the database.
async fn claim_everything(store: &Store) -> Vec<Claimed> {
    let clusters = store.clusters(&ClusterQuery::default()).await.expect("the store answers").items;
    let claim = Claim {
        engine: living(store, 0x77).await,
        instances: clusters.into_iter().map(|cluster| cluster.instance).collect(),
        kinds: ActionKind::ALL.iter().map(|kind| (*kind, u32::MAX)).collect(),
        limit: 1_000,
        now: harness::now(1_800_000_000_000_000),
    };
    store.claim(claim).await.expect("a claim")
}

#[database_test]
async fn an_action_of_an_unknown_kind_is_never_claimed(kind: Kind) {
    let Some(database) = version_1(kind).await else { return };
    database.execute("UPDATE actions SET kind = 'CLUSTER_MIGRATE', version = 1 WHERE status = 'READY'").await;
    let store = database.open().await;
    let waiting = ActionQuery { statuses: vec![ActionStatus::Ready], ..ActionQuery::default() };
    let waiting = store.actions(&waiting).await.unwrap().items;
    let migrate = ActionKind::from_stored("CLUSTER_MIGRATE");
    assert!(!waiting.is_empty() && waiting.iter().all(|action| action.kind == migrate), "{waiting:?}");
    let claimed = claim_everything(&store).await;
    assert!(!claimed.is_empty(), "those of a dead engine are taken over");
    assert!(claimed.iter().all(|claimed| claimed.action.kind != migrate), "{claimed:?}");
}

#[database_test]
async fn an_action_on_an_unknown_kind_of_target_is_never_claimed(kind: Kind) {
    let Some(database) = version_1(kind).await else { return };
    let claimable = claim_everything(&database.open().await).await;
    for taken_over in [false, true] {
        let any = claimable.iter().any(|claimed| claimed.taken_over == taken_over);
        assert!(any, "some wait, and some were abandoned: {claimable:?}");
    }
    let Some(database) = version_1(kind).await else { return };
    database.execute("UPDATE actions SET target_kind = 'profile' WHERE ended_at IS NULL").await;
    let store = database.open().await;
    let claimed = claim_everything(&store).await;
    assert!(claimed.is_empty(), "{claimed:?}");
    let unknown = store.action(claimable[0].action.id).await.unwrap().unwrap().target;
    assert_eq!((unknown.kind(), unknown.id()), ("profile", claimable[0].action.target.id()));
}

#[database_test]
async fn an_action_of_an_unknown_status_gets_the_signal_and_is_not_ended(kind: Kind) {
    let Some(database) = version_1(kind).await else { return };
    let sql = "UPDATE actions SET status = 'POSTPONED', control = NULL, started_at = NULL \
               WHERE status = 'READY' AND parent_id IS NULL";
    database.execute(sql).await;
    let store = database.open().await;
    let postponed = ActionStatus::from_stored("POSTPONED");
    let query = ActionQuery { statuses: vec![postponed], top_level: true, ..ActionQuery::default() };
    let id: ActionId = store.actions(&query).await.unwrap().items.first().expect("a postponed action").id;
    for (kind, control) in [
        (SignalKind::Suspend, Some(Control::Suspend)),
        (SignalKind::Resume, None),
        (SignalKind::Cancel, Some(Control::Cancel)),
    ] {
        let read = store
            .signal(Signal { id, kind, now: harness::now(1_800_000_000_000_000), request: None })
            .await
            .unwrap();
        assert_eq!((read.status, read.control, read.ended_at), (postponed, control, None), "{kind:?}");
    }
}
