//! Policies and their bindings as rows.

use muster_core::ids::BindingId;
use muster_core::policy::{Binding, Policy};

use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::{Row, args, json};

/// The columns in the order of [`read`].
pub(crate) const COLUMNS: &[&str] = &[
    "p.id",
    "p.name",
    "p.type",
    "p.project",
    "p.user_id",
    "p.spec",
    "p.data",
    "p.created_at",
    "p.updated_at",
];

/// The columns of a binding in the order of [`read_binding`], which come after those of the policy.
const BINDING_COLUMNS: &str = "b.id, b.cluster_id, b.enabled, b.priority, b.data, b.last_op";

pub(crate) fn read(row: &Row) -> Result<Policy, StoreError> {
    Ok(Policy {
        id: row.parse(0)?,
        name: row.text(1)?,
        kind: row.text(2)?,
        project: row.text(3)?,
        user: row.text(4)?,
        spec: row.json(5)?,
        data: row.json(6)?,
        created_at: row.time(7)?,
        updated_at: row.opt_time(8)?,
    })
}

/// Reads policies; `rest` is the SQL after the FROM clause.
pub(crate) async fn fetch(
    tx: &mut Transaction<'_>,
    rest: &str,
    arguments: Vec<crate::value::Value>,
) -> Result<Vec<Policy>, StoreError> {
    let sql = format!("SELECT {} FROM policies p {rest}", COLUMNS.join(", "));
    tx.rows(sql, arguments).await?.iter().map(read).collect()
}

pub(crate) async fn insert(tx: &mut Transaction<'_>, policy: &Policy) -> Result<(), StoreError> {
    const INSERT: &str = "INSERT INTO policies (id, name, type, project, user_id, spec, data, created_at, updated_at) \
                          VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING";
    let Policy { id, name, kind, project, user, spec, data, created_at, updated_at } = policy;
    let row =
        args![id.to_string(), name, kind, project, user, json(spec), json(data), *created_at, *updated_at,];
    tx.execute(INSERT, row).await?;
    Ok(())
}

/// Reads bindings; `rest` is the SQL after the FROM clause.
pub(crate) async fn fetch_bindings(
    tx: &mut Transaction<'_>,
    rest: &str,
    arguments: Vec<crate::value::Value>,
) -> Result<Vec<Binding>, StoreError> {
    let sql = format!(
        "SELECT {}, {BINDING_COLUMNS} FROM bindings b JOIN policies p ON p.id = b.policy_id {rest}",
        COLUMNS.join(", ")
    );
    tx.rows(sql, arguments).await?.iter().map(read_binding).collect()
}

fn read_binding(row: &Row) -> Result<Binding, StoreError> {
    let first = COLUMNS.len();
    Ok(Binding {
        policy: read(row)?,
        id: row.parse(first)?,
        cluster_id: row.parse(first + 1)?,
        enabled: row.bool(first + 2)?,
        priority: row.number(first + 3)?,
        data: row.json(first + 4)?,
        last_op: row.opt_time(first + 5)?,
    })
}

/// Inserts or updates the binding of a policy.
pub(crate) async fn put_binding(tx: &mut Transaction<'_>, binding: &Binding) -> Result<(), StoreError> {
    const PUT: &str = "INSERT INTO bindings (id, cluster_id, policy_id, enabled, priority, data, last_op) \
                       VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (cluster_id, policy_id) DO UPDATE SET \
                       enabled = excluded.enabled, data = excluded.data, last_op = excluded.last_op";
    let Binding { id, cluster_id, policy, enabled, priority, data, last_op } = binding;
    let row = args![
        id.to_string(),
        cluster_id.to_string(),
        policy.id.to_string(),
        *enabled,
        i64::from(*priority),
        json(data),
        *last_op,
    ];
    tx.execute(PUT, row).await?;
    Ok(())
}

pub(crate) async fn remove_binding(tx: &mut Transaction<'_>, id: BindingId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM bindings WHERE id = $1", args![id.to_string()]).await?;
    Ok(())
}
