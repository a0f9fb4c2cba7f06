//! Apps as rows.

use muster_core::app::App;
use muster_core::ids::{AppId, ClusterId};
use muster_core::principal::Owner;

use crate::error::StoreError;
use crate::transaction::{Touched, Transaction};
use crate::value::{Row, Value, args, opt_json};

/// All columns, in the order of [`read`].
pub(crate) const COLUMNS: &[&str] = &[
    "id",
    "instance",
    "namespace",
    "name",
    "kind",
    "uid",
    "project",
    "owner_scheme",
    "owner_id",
    "owner_name",
    "process",
    "lease_until",
    "cluster_name",
    "cluster_id",
    "state",
    "created_at",
    "ended_at",
];

pub(crate) fn read(row: &Row) -> Result<App, StoreError> {
    Ok(App {
        id: row.parse(0)?,
        instance: row.parse(1)?,
        namespace: row.text(2)?,
        name: row.text(3)?,
        kind: row.word(4)?,
        uid: row.text(5)?,
        project: row.text(6)?,
        owner: Owner { scheme: row.text(7)?, id: row.text(8)?, name: row.text(9)? },
        process: row.opt_json(10)?,
        lease_until: row.opt_time(11)?,
        cluster_name: row.text(12)?,
        cluster_id: row.opt_parse(13)?,
        state: row.word(14)?,
        created_at: row.time(15)?,
        ended_at: row.opt_time(16)?,
    })
}

fn values(app: &App) -> Vec<Value> {
    args![
        app.id.to_string(),
        app.instance.as_str(),
        &app.namespace,
        &app.name,
        app.kind.as_str(),
        &app.uid,
        &app.project,
        &app.owner.scheme,
        &app.owner.id,
        &app.owner.name,
        opt_json(app.process.as_ref()),
        app.lease_until,
        &app.cluster_name,
        app.cluster_id.map(|id| id.to_string()),
        app.state.as_str(),
        app.created_at,
        app.ended_at,
    ]
}

/// Inserts an app; false if its object has a row.
pub(crate) async fn insert(tx: &mut Transaction<'_>, app: &App) -> Result<bool, StoreError> {
    let columns = COLUMNS.join(", ");
    let sql = format!(
        "INSERT INTO apps ({columns}, marks_wanted, marks_written) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, 0, 0) \
         ON CONFLICT (instance, uid) DO NOTHING"
    );
    Ok(tx.execute(sql, values(app)).await? > 0)
}

/// Updates the columns of an app that may change.
pub(crate) async fn update(tx: &mut Transaction<'_>, app: &App) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE apps SET process = $2, lease_until = $3, cluster_name = $4, cluster_id = $5, \
                          state = $6, ended_at = $7 WHERE id = $1";
    let row = args![
        app.id.to_string(),
        opt_json(app.process.as_ref()),
        app.lease_until,
        &app.cluster_name,
        app.cluster_id.map(|id| id.to_string()),
        app.state.as_str(),
        app.ended_at,
    ];
    tx.execute(UPDATE, row).await.map(drop)
}

/// The app that a condition selects.
pub(crate) async fn find(
    tx: &mut Transaction<'_>,
    condition: &str,
    values: Vec<Value>,
) -> Result<Option<App>, StoreError> {
    let columns = COLUMNS.join(", ");
    let row = tx.row(format!("SELECT {columns} FROM apps WHERE {condition}"), values).await?;
    row.as_ref().map(read).transpose()
}

/// The app of this id, whose row is locked until the transaction ends.
pub(crate) async fn lock(tx: &mut Transaction<'_>, id: AppId) -> Result<App, StoreError> {
    let condition = format!("id = $1{}", tx.dialect().for_update());
    let missing = || StoreError::NotFound { kind: "app", given: id.to_string() };
    find(tx, &condition, args![id.to_string()]).await?.ok_or_else(missing)
}

/// Raises the version of the wanted marks, so that the marks of the app's object are written.
pub(crate) async fn want_marks(tx: &mut Transaction<'_>, app: AppId) -> Result<(), StoreError> {
    tx.execute("UPDATE apps SET marks_wanted = marks_wanted + 1 WHERE id = $1", args![app.to_string()])
        .await?;
    tx.touch(Touched::Apps);
    Ok(())
}

/// Removes a deleted cluster from the apps that use or name it.
pub(crate) async fn forget_cluster(tx: &mut Transaction<'_>, cluster: ClusterId) -> Result<(), StoreError> {
    const USERS: &str = "UPDATE apps SET marks_wanted = marks_wanted + 1 \
                         WHERE id IN (SELECT app_id FROM app_uses WHERE cluster_id = $1)";
    const NAMED: &str = "UPDATE apps SET cluster_name = '', cluster_id = NULL, marks_wanted = marks_wanted + 1 WHERE cluster_id = $1";
    let id = cluster.to_string();
    let users = tx.execute(USERS, args![&id]).await?;
    let named = tx.execute(NAMED, args![&id]).await?;
    if users + named > 0 {
        tx.execute("DELETE FROM app_uses WHERE cluster_id = $1", args![&id]).await?;
        tx.touch(Touched::Apps);
    }
    Ok(())
}
