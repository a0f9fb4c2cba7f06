//! Duties that one engine at a time has: the observer of an instance, the janitor.

use futures::future::BoxFuture;
use muster_core::ids::EngineId;

use crate::error::StoreError;
use crate::transaction::{Command, Transaction};
use crate::value::args;

/// Takes a duty, unless an engine that is alive has it.
#[derive(Debug, Clone)]
pub struct TakeDuty {
    /// The duty.
    pub name: String,
    /// Who wants it.
    pub engine: EngineId,
}

impl Command for TakeDuty {
    /// Whether it is now this engine's.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        const TAKE: &str = "INSERT INTO duties (name, engine_id, fence) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE \
                            SET engine_id = excluded.engine_id, fence = excluded.fence WHERE duties.engine_id = $2 \
                            OR NOT EXISTS (SELECT 1 FROM engines e WHERE e.id = duties.engine_id AND e.lease_until >= $4)";
        const MINE: &str = "SELECT 1 FROM duties WHERE name = $1 AND engine_id = $2";
        Box::pin(async move {
            if tx.row(MINE, args![&self.name, self.engine.to_string()]).await?.is_some() {
                return Ok(true);
            }
            let now = tx.database_now().await?;
            let fence = tx.next_fence().await?;
            Ok(tx.execute(TAKE, args![&self.name, self.engine.to_string(), fence, now]).await? > 0)
        })
    }
}
