//! Who is alive.

use futures::future::BoxFuture;
use muster_core::ids::{EngineId, InstanceId};
use muster_core::time::TimeSpan;

use super::claim::RUNNING;
use crate::connection::Dialect;
use crate::error::StoreError;
use crate::transaction::{Command, Touched, Transaction};
use crate::value::{args, json};

/// An engine begins.
#[derive(Debug, Clone)]
pub struct Register {
    /// The engine.
    pub engine: EngineId,
    /// Where it runs.
    pub host: String,
    /// Its version.
    pub version: String,
    /// What it can execute for.
    pub instances: Vec<InstanceId>,
    /// How long it counts as alive without another word.
    pub lease: TimeSpan,
}

impl Command for Register {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        const INSERT: &str = "INSERT INTO engines (id, host, version, instances, started_at, lease_until) \
                              VALUES ($1, $2, $3, $4, $5, $6)";
        Box::pin(async move {
            let now = tx.database_now().await?;
            if tx.dialect() == Dialect::Sqlite {
                // The file is ours alone (its folder is locked): whoever had it before is dead.
                tx.execute("UPDATE engines SET lease_until = 0", args![]).await?;
            }
            let until = now.saturating_add(self.lease.micros());
            let row =
                args![self.engine.to_string(), &self.host, &self.version, json(&self.instances), now, until];
            tx.execute(INSERT, row).await?;
            serve(tx, &self.instances, now).await?;
            tx.touch(Touched::Work);
            Ok(())
        })
    }
}

/// An engine is still there.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The engine.
    pub engine: EngineId,
    /// What it can execute for.
    pub instances: Vec<InstanceId>,
    /// How long it counts as alive without another word.
    pub lease: TimeSpan,
}

impl Command for Heartbeat {
    /// Whether it was still counted as alive.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        const RENEW: &str = "UPDATE engines SET lease_until = $2 WHERE id = $1 AND lease_until >= $3";
        Box::pin(async move {
            let now = tx.database_now().await?;
            let until = now.saturating_add(self.lease.micros());
            let renewed = tx.execute(RENEW, args![self.engine.to_string(), until, now]).await?;
            serve(tx, &self.instances, now).await?;
            let forget = format!(
                "DELETE FROM engines WHERE lease_until < $1 \
                 AND NOT EXISTS (SELECT 1 FROM actions a WHERE {RUNNING} AND a.owner = engines.id)"
            );
            tx.execute(forget, args![now - FORGET.micros()]).await?;
            Ok(renewed > 0)
        })
    }
}

/// How long a dead engine stays listed: until then, and until others have taken what it had.
const FORGET: TimeSpan = TimeSpan::from_secs(24 * 3600);

/// An engine ends; its actions may be taken at once.
#[derive(Debug, Clone)]
pub struct Deregister {
    /// The engine.
    pub engine: EngineId,
}

impl Command for Deregister {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        Box::pin(async move {
            let id = self.engine.to_string();
            tx.execute("UPDATE engines SET lease_until = 0 WHERE id = $1", args![&id]).await?;
            tx.execute("DELETE FROM duties WHERE engine_id = $1", args![&id]).await?;
            tx.touch(Touched::Work);
            Ok(())
        })
    }
}

async fn serve(tx: &mut Transaction<'_>, instances: &[InstanceId], now: i64) -> Result<(), StoreError> {
    const SERVE: &str = "INSERT INTO instances (id, served_at) VALUES ($1, $2) \
                         ON CONFLICT (id) DO UPDATE SET served_at = excluded.served_at";
    for instance in instances {
        tx.execute(SERVE, args![instance.as_str(), now]).await?;
    }
    Ok(())
}
