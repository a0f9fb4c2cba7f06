//! Actions that an older version stored: this version reads their inputs and their data.

use muster_core::action::{Action, ActionKind};
use muster_core::change::Change;
use muster_engine::action_data::ActionData;
use muster_store::Store;
use muster_store::reads::ActionQuery;
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The actions of the database of version 1, which is a fixture of the store.
async fn actions_of_version_1() -> Vec<Action> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("muster.db");
    let script = include_str!("../../../store/tests/fixtures/v1/sqlite.sql");
    rusqlite::Connection::open(&file).expect("a file").execute_batch(script).expect("the script runs");
    let store = Store::open_file(&file).await.expect("the file opens");
    store.actions(&ActionQuery::default()).await.expect("actions").items
}

#[tokio::test]
async fn inputs_of_version_1_are_read() {
    let mut unreadable = Vec::new();
    for action in actions_of_version_1().await {
        match Change::read(action.kind, &action.inputs) {
            Ok(change) => assert_eq!(change.kind(), action.kind),
            Err(_) => unreadable.push((action.kind, action.inputs)),
        }
    }
    // A request that was invalid in version 1 too, and a child action, whose parent has the inputs.
    let expected =
        [(ActionKind::ClusterRecover, json!({"check": "maybe"})), (ActionKind::NodeOperation, json!({}))];
    assert_eq!(unreadable, expected);
}

#[tokio::test]
async fn data_of_version_1_is_read_and_written_back_whole() {
    for Action { kind, data, .. } in actions_of_version_1().await {
        let mut newer = data;
        let parts = newer.as_object_mut().expect("data is a map");
        parts.values_mut().filter_map(Value::as_object_mut).for_each(|part| {
            part.insert("of_a_newer_version".to_owned(), json!([1]));
        });
        parts.insert("of_a_newer_version".to_owned(), json!({"a": null, "b": 2}));
        let read = ActionData::deserialize(&newer).unwrap_or_else(|why| panic!("{kind}: {newer}: {why}"));
        let written = serde_json::to_value(read).expect("data is plain");
        assert!(is_kept(&newer, &written), "{kind}: {newer} was written as {written}");
    }
}

/// Returns true if the second value has everything of the first. Null counts as absent.
fn is_kept(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.iter().all(|(key, value)| match after.get(key) {
                Some(written) => is_kept(value, written),
                None => value.is_null(),
            })
        }
        _ => before == after,
    }
}
