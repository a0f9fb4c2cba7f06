//! Duties that one engine at a time holds, such as observing an instance.

use futures::future::BoxFuture;
use muster_core::ids::EngineId;

use crate::error::StoreError;
use crate::transaction::{Command, Transaction};
use crate::value::args;

/// Acquires a duty, unless another engine with a valid lease holds it.
#[derive(Debug, Clone)]
pub struct TakeDuty {
    /// The duty.
    pub name: String,
    /// The engine that requests it.
    pub engine: EngineId,
}

impl Command for TakeDuty {
    /// True if this engine holds the duty now.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        const TAKE: &str = "INSERT INTO duties (name, engine_id) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE \
                            SET engine_id = excluded.engine_id WHERE duties.engine_id = $2 \
                            OR NOT EXISTS (SELECT 1 FROM engines e WHERE e.id = duties.engine_id AND e.lease_until >= $3)";
        Box::pin(async move {
            if is_held(tx, &self.name, self.engine).await? {
                return Ok(true);
            }
            let now = tx.database_now().await?;
            Ok(tx.execute(TAKE, args![&self.name, self.engine.to_string(), now]).await? > 0)
        })
    }
}

/// Returns true if this engine holds the duty, which no other engine can acquire until the transaction ends.
pub(super) async fn is_held(
    tx: &mut Transaction<'_>,
    duty: &str,
    engine: EngineId,
) -> Result<bool, StoreError> {
    const MINE: &str = "SELECT 1 FROM duties WHERE name = $1 AND engine_id = $2";
    let sql = format!("{MINE}{}", tx.dialect().for_share());
    Ok(tx.row(sql, args![duty, engine.to_string()]).await?.is_some())
}
