//! The commands for the leases of engines.

use futures::future::BoxFuture;
use muster_core::ids::{EngineId, InstanceId};
use muster_core::time::{TimeSpan, Timestamp};

use super::claim::RUNNING;
use crate::connection::Dialect;
use crate::error::StoreError;
use crate::migrate;
use crate::transaction::{Command, Touched, Transaction};
use crate::value::{args, json};

/// Registers an engine that starts, with its first lease.
#[derive(Debug, Clone)]
pub struct Register {
    /// The engine.
    pub engine: EngineId,
    /// The host.
    pub host: String,
    /// The version of the server.
    pub version: String,
    /// The provider instances that it serves.
    pub instances: Vec<InstanceId>,
    /// The duration of the lease.
    pub lease: TimeSpan,
}

impl Command for Register {
    /// The time by the database's clock.
    type Output = Timestamp;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Timestamp, StoreError>> {
        const INSERT: &str = "INSERT INTO engines (id, host, version, instances, started_at, lease_until) \
                              VALUES ($1, $2, $3, $4, $5, $6)";
        const SERVE: &str = "INSERT INTO instances (id, served_at) VALUES ($1, $2) \
                             ON CONFLICT (id) DO UPDATE SET served_at = excluded.served_at";
        Box::pin(async move {
            migrate::check_readable(tx).await?;
            let now = tx.database_now().await?;
            if tx.dialect() == Dialect::Sqlite {
                // This process holds the lock of the data folder, so that every earlier engine of the file has ended.
                tx.execute("UPDATE engines SET lease_until = 0", args![]).await?;
            }
            let until = now.saturating_add(self.lease.micros());
            let row =
                args![self.engine.to_string(), &self.host, &self.version, json(&self.instances), now, until];
            tx.execute(INSERT, row).await?;
            for instance in &self.instances {
                tx.execute(SERVE, args![instance.as_str(), now]).await?;
            }
            tx.touch(Touched::Work);
            Ok(Timestamp::from_micros(now))
        })
    }
}

/// Renews an engine's lease. Writes only the engine's own row: an engine that dies in the middle of a renewal does not
/// keep another engine from renewing its lease.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The engine.
    pub engine: EngineId,
    /// The remaining time of the lease.
    pub lease: TimeSpan,
}

/// The outcome of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// True if the lease was still valid, and was extended.
    pub renewed: bool,
    /// The time by the database's clock.
    pub now: Timestamp,
    /// The time until the next lease of another engine expires, unless it is renewed.
    pub next_expiry: Option<TimeSpan>,
}

impl Command for Heartbeat {
    type Output = Renewal;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Renewal, StoreError>> {
        const RENEW: &str = "UPDATE engines SET lease_until = $2 WHERE id = $1 AND lease_until >= $3";
        const NEXT: &str = "SELECT min(lease_until) FROM engines WHERE id <> $1 AND lease_until >= $2";
        Box::pin(async move {
            migrate::check_readable(tx).await?;
            let now = tx.database_now().await?;
            let until = now.saturating_add(self.lease.micros());
            let id = self.engine.to_string();
            let renewed = tx.execute(RENEW, args![&id, until, now]).await? > 0;
            let next = tx.one(NEXT, args![&id, now]).await?.opt_int(0)?;
            let time = Timestamp::from_micros(now);
            Ok(Renewal { renewed, now: time, next_expiry: next.map(|at| TimeSpan::from_micros(at - now)) })
        })
    }
}

/// Records that instances are served by an engine, and deletes the rows of engines that died long ago.
#[derive(Debug, Clone)]
pub struct ServeInstances {
    /// The instances.
    pub instances: Vec<InstanceId>,
}

impl Command for ServeInstances {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        Box::pin(async move {
            let now = tx.database_now().await?;
            // Skip a row that another engine is writing at the moment.
            let serve = format!(
                "UPDATE instances SET served_at = $2 WHERE id IN (SELECT id FROM instances WHERE id = $1{})",
                tx.dialect().skip_locked()
            );
            for instance in &self.instances {
                tx.execute(serve.clone(), args![instance.as_str(), now]).await?;
            }
            let forget = format!(
                "DELETE FROM engines WHERE lease_until < $1 \
                 AND NOT EXISTS (SELECT 1 FROM actions a WHERE {RUNNING} AND a.owner = engines.id)"
            );
            tx.execute(forget, args![now - FORGET.micros()]).await?;
            Ok(())
        })
    }
}

/// The time for which a dead engine stays listed; it stays longer if its actions were not taken over yet.
const FORGET: TimeSpan = TimeSpan::from_secs(24 * 3600);

/// Ends the lease and the duties of an engine that stops, so that its actions can be taken over at once.
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
