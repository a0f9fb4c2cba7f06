//! Databases of released versions: they open, every row is read, and a rewrite loses nothing.

use std::collections::BTreeSet;

use muster_core::action::{ActionKind, ActionStatus, Cause, Control};
use muster_core::cluster::{ClusterStatus, Framework};
use muster_core::event::{Level, ObjectKind};
use muster_core::ids::{ActionId, EventId};
use muster_core::node::{NodeRole, NodeStatus};
use muster_core::placement::Affinity;
use muster_core::policy::KINDS;
use muster_core::principal::{Door, Role};
use muster_core::profile_types::TYPES;
use muster_core::receiver::ReceiverKind;
use muster_store::commands::RequestKey;
use muster_testkit::database_test;
use serde_json::Value;

use crate::harness::Kind;
use crate::raw::{RawDatabase, Row, TABLES, Table};
use crate::rewrite::{Everything, copied, rewrite, take_over};

/// A database that the first release with schema version 1 wrote.
pub(crate) async fn version_1(kind: Kind) -> Option<RawDatabase> {
    let script = match kind {
        Kind::Sqlite => include_str!("../fixtures/v1/sqlite.sql"),
        Kind::Postgres => include_str!("../fixtures/v1/postgres.sql"),
    };
    RawDatabase::load(kind, script).await
}

#[database_test(version_1)]
async fn version_1_has_rows_in_every_table(database: RawDatabase) {
    let tables: BTreeSet<String> = database.tables().await.into_iter().collect();
    let known: BTreeSet<String> = TABLES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(tables, known);
    for (table, _) in TABLES {
        assert!(!database.table(table).await.is_empty(), "{table} is empty");
    }
}

#[database_test(version_1)]
async fn every_row_of_version_1_is_read(database: RawDatabase) {
    let store = database.open().await;
    let read = Everything::read(&store).await;
    let groups = read.clusters.iter().map(|cluster| cluster.groups.len()).sum();
    let counts = [
        ("profiles", read.profiles.len()),
        ("policies", read.policies.len()),
        ("clusters", read.clusters.len()),
        ("worker_groups", groups),
        ("nodes", read.nodes.len()),
        ("bindings", read.bindings.len()),
        ("receivers", read.receivers.len()),
        ("actions", read.actions.len()),
        ("events", read.events.len()),
        ("engines", store.engines().await.unwrap().len()),
    ];
    for (table, count) in counts {
        assert_eq!(count, database.table(table).await.len(), "rows of {table}");
    }
    let muster = database.table("muster").await;
    assert_eq!(text(&muster["1"], "database_id"), store.database_id().await.unwrap());
    assert_eq!(text(&muster["1"], "token_key"), store.token_key().await.unwrap());
    let actions = database.table("actions").await;
    for request in database.table("idempotency").await.values() {
        let key = |column| text(request, column).to_owned();
        let (principal, request_id, digest) = (key("principal"), key("request_id"), key("digest"));
        let action = store.request(&RequestKey { principal, request_id, digest }).await.unwrap();
        // The action of one request is purged already.
        let expected = actions.get(&request["action_id"].to_string()).map(|_| key("action_id"));
        assert_eq!(action.map(|action| action.id.to_string()), expected);
    }
    for instance in database.table("instances").await.values() {
        let (served, _) = store.last_served(&text(instance, "id").parse().unwrap()).await.unwrap();
        assert_eq!(served.map(|at| Value::from(at.micros())).as_ref(), instance.get("served_at"));
    }
}

#[database_test]
async fn version_1_has_every_known_word(kind: Kind) {
    let Some(database) = version_1(kind).await else { return };
    macro_rules! expect_all {
        ($($type:ty: $table:literal . $column:literal),+ $(,)?) => {$(
            let present = distinct(&database.table($table).await, $column);
            for value in <$type>::ALL {
                assert!(present.contains(value.as_str()), "{}.{} is never {value}", $table, $column);
            }
        )+};
    }
    expect_all! {
        ActionKind: "actions"."kind",
        ActionStatus: "actions"."status",
        Cause: "actions"."cause",
        Door: "actions"."door",
        Door: "events"."door",
        ClusterStatus: "clusters"."status",
        Framework: "clusters"."framework",
        NodeStatus: "nodes"."status",
        NodeRole: "nodes"."role",
        Level: "events"."level",
        ObjectKind: "events"."object_kind",
        ReceiverKind: "receivers"."type",
    }
    // Version 1 has no signals that later versions added.
    let signals = distinct(&database.table("actions").await, "control");
    for signal in [Control::Cancel, Control::Suspend] {
        assert!(signals.contains(signal.as_str()), "actions.control is never {signal}");
    }
    let actions = database.table("actions").await;
    let roles: BTreeSet<&str> = actions
        .values()
        .filter_map(|row| row["principal"]["roles"].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    assert!(Role::ALL.iter().all(|role| roles.contains(role.as_str())), "{roles:?}");
    let nodes = database.table("nodes").await;
    let affinities: BTreeSet<&str> =
        nodes.values().filter_map(|row| row["data"]["placement"]["servergroup"]["policy"].as_str()).collect();
    assert!(Affinity::ALL.iter().all(|word| affinities.contains(word.as_str())), "{affinities:?}");
    let policies = distinct(&database.table("policies").await, "type");
    for (kind, version) in
        KINDS.iter().flat_map(|kind| kind.versions.iter().map(move |version| (kind, version)))
    {
        let name = format!("{}-{}", kind.name, version.number);
        assert!(policies.contains(&name), "there is no policy of type {name}");
    }
    let profiles = distinct(&database.table("profiles").await, "type");
    for info in TYPES {
        assert!(profiles.contains(&info.to_string()), "there is no profile of type {info}");
    }
}

#[database_test(version_1)]
async fn version_1_is_written_as_it_was_read(database: RawDatabase) {
    let store = database.open().await;
    let ticket = take_over(&store).await;
    let mut before = Vec::new();
    for (table, _) in TABLES {
        before.push((*table, database.table(table).await));
    }
    rewrite(&store, ticket).await;
    for (table, before) in before {
        let after = database.table(table).await;
        compare(table, &before, &after);
    }
}

/// Returns true for columns with the time, the order or the writer of a write.
fn is_clock(table: &str, column: &str) -> bool {
    match table {
        "clusters" => column == "change",
        "counters" => column == "value",
        "profiles" | "policies" => column == "updated_at",
        // A take-over counts the death of the previous engine.
        "actions" => column == "deaths",
        _ => false,
    }
}

/// Checks that every row has kept its values, and that the copies of actions and events have them, too.
pub(crate) fn compare(table: &str, before: &Table, after: &Table) {
    for (key, row) in before {
        let written = &after[key];
        for (column, value) in row.iter().filter(|(column, _)| !is_clock(table, column)) {
            // The action whose ticket was used has a new `updated_at`.
            if (table, column.as_str()) != ("actions", "updated_at") {
                assert_eq!(written.get(column), Some(value), "{table}.{column} of {key}");
            }
        }
        let copy = match table {
            "actions" => copied(text(row, "id").parse::<ActionId>().expect("an id").as_uuid()),
            "events" => copied(text(row, "id").parse::<EventId>().expect("an id").as_uuid()),
            _ => continue,
        };
        let copy = &after[&format!("\"{copy}\"")];
        // `suspended_at` and `deaths` are not read, and a copy has no columns of a newer version.
        for (column, value) in row
            .iter()
            .filter(|(column, _)| !["id", "suspended_at", "deaths", "newer"].contains(&column.as_str()))
        {
            assert_eq!(copy.get(column), Some(value), "{table}.{column} of the copy of {key}");
        }
    }
}

fn distinct(table: &Table, column: &str) -> BTreeSet<String> {
    table.values().filter_map(|row| row[column].as_str()).map(str::to_owned).collect()
}

fn text<'r>(row: &'r Row, column: &str) -> &'r str {
    row[column].as_str().expect("a text")
}
