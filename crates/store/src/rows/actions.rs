//! Actions as rows.

use std::sync::LazyLock;

use muster_core::action::{Action, Fence, Target};
use muster_core::principal::Principal;
use muster_core::time::TimeSpan;

use crate::bulk;
use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::{Row, Value, args, json};

/// The columns in the order of [`values`] and [`read`].
pub(crate) const COLUMNS: &[&str] = &[
    "id",
    "kind",
    "version",
    "target_kind",
    "target",
    "cluster_id",
    "instance",
    "parent_id",
    "cause",
    "door",
    "reason",
    "principal",
    "project",
    "priority",
    "inputs",
    "outputs",
    "data",
    "status",
    "status_reason",
    "control",
    "owner",
    "fence",
    "tries",
    "not_before",
    "timeout",
    "suspended_for",
    "created_at",
    "started_at",
    "applied_at",
    "ended_at",
    "updated_at",
    "user_id",
];

pub(crate) fn values(action: &Action) -> Vec<Value> {
    args![
        action.id.to_string(),
        action.kind.as_str(),
        action.version,
        action.target.kind(),
        action.target.id().to_string(),
        action.cluster_id.map(|id| id.to_string()),
        action.instance.as_str(),
        action.parent.map(|id| id.to_string()),
        action.cause.as_str(),
        action.door.as_str(),
        &action.reason,
        json(&action.principal),
        &action.principal.project,
        action.kind.priority(action.cause),
        json(&action.inputs),
        json(&action.outputs),
        json(&action.data),
        action.status.as_str(),
        &action.status_reason,
        action.control.map(|control| control.as_str().to_owned()),
        action.owner.map(|id| id.to_string()),
        action.fence.0,
        action.tries,
        action.not_before,
        action.timeout.micros(),
        action.suspended_for.micros(),
        action.created_at,
        action.started_at,
        action.applied_at,
        action.ended_at,
        action.updated_at,
        &action.principal.id,
    ]
}

pub(crate) fn read(row: &Row) -> Result<Action, StoreError> {
    Ok(Action {
        id: row.parse(0)?,
        kind: row.word(1)?,
        version: row.number(2)?,
        target: Target::from_stored(&row.text(3)?, row.parse(4)?),
        cluster_id: row.opt_parse(5)?,
        instance: row.parse(6)?,
        parent: row.opt_parse(7)?,
        cause: row.word(8)?,
        door: row.word(9)?,
        reason: row.text(10)?,
        principal: row.json::<Principal>(11)?,
        inputs: row.document(14)?,
        outputs: row.document(15)?,
        data: row.document(16)?,
        status: row.word(17)?,
        status_reason: row.text(18)?,
        control: row.opt_word(19)?,
        owner: row.opt_parse(20)?,
        fence: Fence(row.int(21)?),
        tries: row.number(22)?,
        not_before: row.opt_time(23)?,
        timeout: TimeSpan::from_micros(row.int(24)?),
        suspended_for: TimeSpan::from_micros(row.int(25)?),
        created_at: row.time(26)?,
        started_at: row.opt_time(27)?,
        applied_at: row.opt_time(28)?,
        ended_at: row.opt_time(29)?,
        updated_at: row.time(30)?,
    })
}

/// `SELECT <all columns> FROM actions <rest>`.
pub(crate) fn select(rest: &str) -> String {
    format!("SELECT {} FROM actions a {rest}", qualified())
}

/// All columns, of the table under the name `a`.
pub(crate) fn qualified() -> &'static str {
    static COLUMNS_OF_A: LazyLock<String> = LazyLock::new(|| {
        let names: Vec<String> = COLUMNS.iter().map(|column| format!("a.{column}")).collect();
        names.join(", ")
    });
    &COLUMNS_OF_A
}

pub(crate) async fn insert(tx: &mut Transaction<'_>, actions: &[Action]) -> Result<(), StoreError> {
    bulk::insert(tx, "actions", COLUMNS, "", actions.iter().map(values).collect()).await
}
