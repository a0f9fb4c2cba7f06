//! Receivers as rows.

use muster_core::receiver::Receiver;

use crate::error::StoreError;
use crate::value::{Row, Value, args, json};

/// All columns, in the order of [`read`].
pub(crate) const COLUMNS: &str =
    "id, name, type, project, principal, user_id, cluster_id, action, actor, params, created_at, updated_at";

/// How many those are.
pub(crate) const WIDTH: usize = 12;

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

pub(crate) fn values(receiver: &Receiver) -> Vec<Value> {
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
