//! The status of a cluster, computed from its rows, because no single action knows it while several actions change
//! nodes.

use muster_core::action::ActionKind;
use muster_core::ids::ClusterId;
use muster_core::node::{NodeRole, NodeStatus};
use muster_core::status;
use muster_core::time::Timestamp;

use crate::error::StoreError;
use crate::rows::clusters;
use crate::transaction::{Touched, Transaction};
use crate::value::args;

/// Writes the status of a cluster that results from its nodes. The caller has locked the cluster's row.
pub(super) async fn evaluate(
    tx: &mut Transaction<'_>,
    id: ClusterId,
    kind: ActionKind,
    now: Timestamp,
) -> Result<(), StoreError> {
    const COUNT: &str = "SELECT role, status, count(*) FROM nodes WHERE cluster_id = $1 AND idx >= 0 \
                         GROUP BY role, status";
    const SHOW: &str =
        "UPDATE clusters SET status = $2, status_reason = $3, updated_at = $4, change = $5 WHERE id = $1";
    let rest = "WHERE c.id = $1 AND c.deleted_at IS NULL";
    let Some(cluster) = clusters::fetch(tx, rest, args![id.to_string()]).await?.pop() else { return Ok(()) };
    let (mut active, mut head) = (0, None);
    for row in tx.rows(COUNT, args![id.to_string()]).await? {
        match (row.word(0)?, row.word(1)?) {
            (NodeRole::Head, status) => head = Some(status),
            (NodeRole::Worker, NodeStatus::Active) => active = row.number(2)?,
            (NodeRole::Worker | NodeRole::Unknown(_), _) => {}
        }
    }
    let head = status::head_by(&cluster, head);
    let (word, words) = status::evaluate(&cluster, active, head, kind.as_str());
    let change = tx.change().await?;
    tx.execute(SHOW, args![id.to_string(), word.as_str(), words, now, change]).await?;
    tx.touch(Touched::Cluster(id));
    Ok(())
}
