//! Profiles as rows.

use muster_core::ids::ProfileId;
use muster_core::profile::Profile;

use crate::bulk;
use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::{Row, args, json};

/// All columns, in the order of [`read`].
pub(crate) const COLUMNS: &[&str] = &[
    "id",
    "name",
    "type",
    "project",
    "user_id",
    "properties",
    "metadata",
    "implicit",
    "created_at",
    "updated_at",
    "envelope",
];

pub(crate) fn read(row: &Row) -> Result<Profile, StoreError> {
    Ok(Profile {
        id: row.parse(0)?,
        name: row.text(1)?,
        kind: row.parse(2)?,
        project: row.text(3)?,
        user: row.text(4)?,
        properties: row.json(5)?,
        metadata: row.json(6)?,
        implicit: row.bool(7)?,
        created_at: row.time(8)?,
        updated_at: row.opt_time(9)?,
        envelope: row.json(10)?,
    })
}

/// Reads these profiles.
pub(crate) async fn fetch(tx: &mut Transaction<'_>, ids: &[ProfileId]) -> Result<Vec<Profile>, StoreError> {
    let (these, ids) = tx.dialect().any_of("id", "$1", ids);
    let sql = format!("SELECT {} FROM profiles WHERE {these}", COLUMNS.join(", "));
    let rows = tx.rows(sql, args![ids]).await?;
    rows.iter().map(read).collect()
}

pub(crate) async fn insert(tx: &mut Transaction<'_>, profile: &Profile) -> Result<(), StoreError> {
    let row = args![
        profile.id.to_string(),
        &profile.name,
        profile.kind.to_string(),
        &profile.project,
        &profile.user,
        json(&profile.properties),
        json(&profile.metadata),
        profile.implicit,
        profile.created_at,
        profile.updated_at,
        json(&profile.envelope),
    ];
    bulk::insert(tx, "profiles", COLUMNS, "", vec![row]).await
}
