//! Root objects of clusters as rows.

use std::collections::HashMap;
use std::sync::LazyLock;

use muster_core::ids::ClusterId;
use serde_json::Value as Json;

use crate::bulk;
use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::{Row, args, json};

const STORED: &[&str] = &["cluster_id", "managed_by", "body"];

/// The object of a cluster as APIs show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// The cluster.
    pub cluster: ClusterId,
    /// The cluster's name.
    pub name: String,
    /// The object as JSON with sorted keys.
    pub json: String,
}

/// The columns of a stored object, from the tables `clusters c` and `cluster_objects o`.
pub(crate) const COLUMNS: &[&str] = &["c.id", "c.name", "o.body"];

/// Reads a row of these columns.
pub(crate) fn read(row: &Row) -> Result<StoredObject, StoreError> {
    Ok(StoredObject { cluster: row.parse(0)?, name: row.text(1)?, json: row.text(2)? })
}

/// The label that names the program that manages an object.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Inserts or replaces the object of a cluster.
pub(crate) async fn write(
    tx: &mut Transaction<'_>,
    cluster: ClusterId,
    object: &Json,
) -> Result<(), StoreError> {
    static REPLACE: LazyLock<String> =
        LazyLock::new(|| bulk::update_on_conflict("cluster_id", &["managed_by", "body"]));
    let managed_by = object["metadata"]["labels"][MANAGED_BY].as_str().map(str::to_owned);
    let row = args![cluster.to_string(), managed_by, json(object)];
    bulk::insert(tx, "cluster_objects", STORED, &REPLACE, vec![row]).await
}

/// Reads the stored objects of these clusters as JSON.
pub(crate) async fn fetch(
    tx: &mut Transaction<'_>,
    clusters: &[ClusterId],
) -> Result<HashMap<ClusterId, String>, StoreError> {
    if clusters.is_empty() {
        return Ok(HashMap::new());
    }
    let (these, ids) = tx.dialect().any_of("cluster_id", "$1", clusters);
    let rows =
        tx.rows(format!("SELECT cluster_id, body FROM cluster_objects WHERE {these}"), args![ids]).await?;
    rows.iter().map(|row| Ok((row.parse(0)?, row.text(1)?))).collect()
}
