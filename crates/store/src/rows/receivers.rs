//! Receivers as rows.

use std::sync::LazyLock;

use muster_core::receiver::Receiver;

use crate::bulk;
use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::{Row, Value, args, json};

/// All columns, in the order of [`read`].
pub(crate) const COLUMNS: &[&str] = &[
    "id",
    "name",
    "type",
    "project",
    "principal",
    "user_id",
    "cluster_id",
    "action",
    "actor",
    "params",
    "created_at",
    "updated_at",
];

/// The columns that a change of a receiver writes.
const CHANGING: &[&str] = &["name", "principal", "user_id", "action", "params", "updated_at"];

pub(crate) fn read(row: &Row) -> Result<Receiver, StoreError> {
    Ok(Receiver {
        id: row.parse(0)?,
        name: row.text(1)?,
        kind: row.word(2)?,
        project: row.text(3)?,
        principal: row.json(4)?,
        cluster_id: row.parse(6)?,
        action: row.word(7)?,
        actor: row.json(8)?,
        params: row.json(9)?,
        created_at: row.time(10)?,
        updated_at: row.opt_time(11)?,
    })
}

/// Inserts or updates a receiver.
pub(crate) async fn put(tx: &mut Transaction<'_>, receiver: &Receiver) -> Result<(), StoreError> {
    static CONFLICT: LazyLock<String> = LazyLock::new(|| bulk::update_on_conflict("id", CHANGING));
    bulk::insert(tx, "receivers", COLUMNS, &CONFLICT, vec![values(receiver)]).await
}

fn values(receiver: &Receiver) -> Vec<Value> {
    args![
        receiver.id.to_string(),
        &receiver.name,
        receiver.kind.as_str(),
        &receiver.project,
        json(&receiver.principal),
        &receiver.principal.id,
        receiver.cluster_id.to_string(),
        receiver.action.as_str(),
        json(&receiver.actor),
        json(&receiver.params),
        receiver.created_at,
        receiver.updated_at,
    ]
}
