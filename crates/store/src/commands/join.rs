//! The check of orphans that join a cluster.

use std::collections::HashSet;

use muster_core::ids::{ActionId, NodeId};
use muster_core::node::NodeStatus;

use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::args;

/// Refuses the commit unless all of these nodes are ACTIVE orphans that no other action has locked.
pub(super) async fn check(
    tx: &mut Transaction<'_>,
    action: ActionId,
    joining: &[NodeId],
) -> Result<(), StoreError> {
    if joining.is_empty() {
        return Ok(());
    }
    let (these, ids) = tx.dialect().any_of("id", "$1", joining);
    let lock = tx.dialect().for_update();
    let sql = format!("SELECT id FROM nodes WHERE {these} AND cluster_id IS NULL AND status = $2{lock}");
    let rows = tx.rows(sql, args![ids, NodeStatus::Active.as_str()]).await?;
    let mut free = rows.iter().map(|row| row.parse(0)).collect::<Result<HashSet<NodeId>, _>>()?;
    let (these, ids) = tx.dialect().any_of("target", "$1", joining);
    let sql = format!("SELECT target FROM locks WHERE {these} AND action_id <> $2");
    for row in tx.rows(sql, args![ids, action.to_string()]).await? {
        free.remove(&row.parse(0)?);
    }
    let others: Vec<NodeId> = joining.iter().copied().filter(|id| !free.contains(id)).collect();
    if others.is_empty() { Ok(()) } else { Err(StoreError::NotFree(others)) }
}
