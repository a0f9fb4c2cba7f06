//! Events as rows.

use muster_core::event::Event;

use crate::bulk;
use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::{Row, Value, args, json};

/// The columns in the order of [`values`] and [`read`].
pub(crate) const COLUMNS: &[&str] = &[
    "id",
    "at",
    "level",
    "object_kind",
    "object_id",
    "object_name",
    "cluster_id",
    "action_id",
    "reason",
    "phase",
    "message",
    "user_id",
    "project",
    "door",
    "data",
];

fn values(event: &Event) -> Vec<Value> {
    args![
        event.id.to_string(),
        event.at,
        event.level.as_str(),
        event.object_kind.as_str(),
        &event.object_id,
        &event.object_name,
        event.cluster_id.map(|id| id.to_string()),
        event.action_id.map(|id| id.to_string()),
        &event.reason,
        &event.phase,
        &event.message,
        &event.user,
        &event.project,
        event.door.as_str(),
        json(&event.data),
    ]
}

pub(crate) fn read(row: &Row) -> Result<Event, StoreError> {
    Ok(Event {
        id: row.parse(0)?,
        at: row.time(1)?,
        level: row.word(2)?,
        object_kind: row.word(3)?,
        object_id: row.text(4)?,
        object_name: row.text(5)?,
        cluster_id: row.opt_parse(6)?,
        action_id: row.opt_parse(7)?,
        reason: row.text(8)?,
        phase: row.text(9)?,
        message: row.text(10)?,
        user: row.text(11)?,
        project: row.text(12)?,
        door: row.word(13)?,
        data: row.json(14)?,
    })
}

pub(crate) async fn insert(tx: &mut Transaction<'_>, events: &[Event]) -> Result<(), StoreError> {
    // Events of other systems keep their ids, and may be reported repeatedly, with another count in their data. The time
    // of the first report stays, so that the order of events does not change.
    const REPEATED: &str = "ON CONFLICT (id) DO UPDATE SET data = excluded.data";
    bulk::insert(tx, "events", COLUMNS, REPEATED, events.iter().map(values).collect()).await
}
