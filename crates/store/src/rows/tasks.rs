//! Tasks as rows, without their logs, which are read separately.

use muster_core::action::Fence;
use muster_core::task::Task;

use crate::bulk;
use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::{Row, Value, args, json};

/// The columns in the order in which rows are read.
pub(crate) const COLUMNS: &[&str] = &[
    "id",
    "kind",
    "instance",
    "project",
    "inputs",
    "outputs",
    "status",
    "status_reason",
    "owner",
    "fence",
    "tries",
    "created_at",
    "started_at",
    "ended_at",
];

/// The columns of an insert: those that are read, and those that only commands use.
const ALL: &[&str] = &[
    "id",
    "kind",
    "instance",
    "project",
    "inputs",
    "outputs",
    "status",
    "status_reason",
    "owner",
    "fence",
    "tries",
    "created_at",
    "started_at",
    "ended_at",
    "cancelled",
    "log",
];

/// Reads a task whose columns begin at position `at` of the row.
pub(crate) fn read_at(row: &Row, at: usize) -> Result<Task, StoreError> {
    let place = |column: usize| at + column;
    Ok(Task {
        id: row.parse(place(0))?,
        kind: parse(&row.text(place(1))?)?,
        instance: row.parse(place(2))?,
        project: row.text(place(3))?,
        inputs: row.json(place(4))?,
        outputs: row.json(place(5))?,
        status: parse(&row.text(place(6))?)?,
        status_reason: row.text(place(7))?,
        owner: row.opt_parse(place(8))?,
        fence: Fence(row.int(place(9))?),
        tries: row.number(place(10))?,
        created_at: row.time(place(11))?,
        started_at: row.opt_time(place(12))?,
        ended_at: row.opt_time(place(13))?,
    })
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::corrupt(format!("'{text}' of a task")))
}

/// Inserts a task with an empty log.
pub(crate) async fn insert(tx: &mut Transaction<'_>, task: &Task) -> Result<(), StoreError> {
    let row: Vec<Value> = args![
        task.id.to_string(),
        task.kind.as_str(),
        task.instance.as_str(),
        &task.project,
        json(&task.inputs),
        json(&task.outputs),
        task.status.as_str(),
        &task.status_reason,
        task.owner.map(|owner| owner.to_string()),
        task.fence.0,
        task.tries,
        task.created_at,
        task.started_at,
        task.ended_at,
        0_i64,
        "",
    ];
    bulk::insert(tx, "tasks", ALL, "", vec![row]).await
}
