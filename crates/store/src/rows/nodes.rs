//! Nodes as rows.

use std::sync::LazyLock;

use muster_core::node::Node;

use crate::bulk;
use crate::error::StoreError;
use crate::rows::columns::{self, ColumnWrites};
use crate::transaction::Transaction;
use crate::value::{Row, Value, args, json};

/// The columns in the order of [`values`] and [`read`]. Those that a move changes are in indexes, so that they are
/// written by [`relocate`] only.
const TABLE: [(&str, ColumnWrites); 23] = [
    ("id", ColumnWrites::Once),
    ("cluster_id", ColumnWrites::Seldom),
    ("group_name", ColumnWrites::Seldom),
    ("role", ColumnWrites::Once),
    ("user_role", ColumnWrites::Always),
    ("idx", ColumnWrites::Seldom),
    ("name", ColumnWrites::Always),
    ("physical_id", ColumnWrites::Always),
    ("profile_id", ColumnWrites::Seldom),
    ("project", ColumnWrites::Once),
    ("user_id", ColumnWrites::Once),
    ("status", ColumnWrites::Always),
    ("status_reason", ColumnWrites::Always),
    ("tainted", ColumnWrites::Always),
    ("data", ColumnWrites::Always),
    ("metadata", ColumnWrites::Always),
    ("dependents", ColumnWrites::Always),
    ("incarnation", ColumnWrites::Always),
    ("starts", ColumnWrites::Always),
    ("init_at", ColumnWrites::Once),
    ("created_at", ColumnWrites::Always),
    ("updated_at", ColumnWrites::Always),
    ("instance", ColumnWrites::Once),
];

/// The names of the columns.
pub(crate) const COLUMNS: &[&str] = &columns::names(&TABLE);

pub(crate) fn values(node: &Node) -> Vec<Value> {
    args![
        node.id.to_string(),
        node.cluster_id.map(|id| id.to_string()),
        node.group.clone(),
        node.role.as_str(),
        &node.user_role,
        node.index,
        &node.name,
        node.physical_id.clone(),
        node.profile_id.to_string(),
        &node.project,
        &node.user,
        node.status.as_str(),
        &node.status_reason,
        node.tainted,
        json(&node.data),
        json(&node.metadata),
        json(&node.dependents),
        node.incarnation,
        json(&node.starts),
        node.init_at,
        node.created_at,
        node.updated_at,
        node.instance.as_str(),
    ]
}

pub(crate) fn read(row: &Row) -> Result<Node, StoreError> {
    Ok(Node {
        id: row.parse(0)?,
        cluster_id: row.opt_parse(1)?,
        group: row.opt_text(2)?,
        role: row.word(3)?,
        user_role: row.text(4)?,
        index: row.int(5)?,
        name: row.text(6)?,
        physical_id: row.opt_text(7)?,
        profile_id: row.parse(8)?,
        project: row.text(9)?,
        user: row.text(10)?,
        status: row.word(11)?,
        status_reason: row.text(12)?,
        tainted: row.bool(13)?,
        data: row.map(14)?,
        metadata: row.map(15)?,
        dependents: row.map(16)?,
        incarnation: row.int(17)?,
        starts: row.json(18)?,
        init_at: row.time(19)?,
        created_at: row.opt_time(20)?,
        updated_at: row.opt_time(21)?,
        instance: row.parse(22)?,
    })
}

/// `SELECT <all columns> FROM nodes <rest>`.
pub(crate) fn select(rest: &str) -> String {
    format!("SELECT {} FROM nodes {rest}", COLUMNS.join(", "))
}

pub(crate) async fn insert(tx: &mut Transaction<'_>, nodes: &[Node]) -> Result<(), StoreError> {
    bulk::insert(tx, "nodes", COLUMNS, "", nodes.iter().map(values).collect()).await
}

/// Updates nodes, without the columns that a move changes. The caller knows that the rows exist.
pub(crate) async fn update(tx: &mut Transaction<'_>, nodes: &[Node]) -> Result<(), StoreError> {
    static CONFLICT: LazyLock<String> =
        LazyLock::new(|| bulk::update_on_conflict("id", &columns::written(&TABLE, &[ColumnWrites::Always])));
    bulk::insert(tx, "nodes", COLUMNS, &CONFLICT, nodes.iter().map(values).collect()).await
}

/// Updates nodes that joined or left a cluster, or got another profile.
pub(crate) async fn relocate(tx: &mut Transaction<'_>, nodes: &[Node]) -> Result<(), StoreError> {
    static CONFLICT: LazyLock<String> = LazyLock::new(|| {
        bulk::update_on_conflict(
            "id",
            &columns::written(&TABLE, &[ColumnWrites::Always, ColumnWrites::Seldom]),
        )
    });
    bulk::insert(tx, "nodes", COLUMNS, &CONFLICT, nodes.iter().map(values).collect()).await
}
