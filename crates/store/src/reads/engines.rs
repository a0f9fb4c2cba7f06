//! Reads of engines and of the instances that they serve.

use muster_core::ids::{EngineId, InstanceId};
use muster_core::time::Timestamp;

use crate::error::StoreError;
use crate::store::Store;
use crate::value::args;

/// A registered engine.
#[derive(Debug, Clone)]
pub struct EngineRow {
    /// The id.
    pub id: EngineId,
    /// The host.
    pub host: String,
    /// The version of its program.
    pub version: String,
    /// The time of its start.
    pub started_at: Timestamp,
    /// True if the lease is valid.
    pub alive: bool,
    /// The end of the lease.
    pub lease_until: Timestamp,
}

impl Store {
    /// All engines that are alive or ended recently.
    pub async fn engines(&self) -> Result<Vec<EngineRow>, StoreError> {
        const SELECT: &str =
            "SELECT id, host, version, started_at, lease_until FROM engines ORDER BY started_at, id";
        self.read_many(async |tx| {
            let now = tx.database_now().await?;
            let rows = tx.rows(SELECT, args![]).await?;
            rows.iter()
                .map(|row| {
                    Ok(EngineRow {
                        id: row.parse(0)?,
                        host: row.text(1)?,
                        version: row.text(2)?,
                        started_at: row.time(3)?,
                        alive: row.int(4)? >= now,
                        lease_until: row.time(4)?,
                    })
                })
                .collect()
        })
        .await
    }

    /// The time when an engine last served an instance, and the present time, both by the database's clock.
    pub async fn last_served(
        &self,
        instance: &InstanceId,
    ) -> Result<(Option<Timestamp>, Timestamp), StoreError> {
        const SELECT: &str = "SELECT served_at FROM instances WHERE id = $1";
        self.read(async |tx| {
            let now = Timestamp::from_micros(tx.database_now().await?);
            let row = tx.row(SELECT, args![instance.as_str()]).await?;
            Ok((row.map(|row| row.time(0)).transpose()?, now))
        })
        .await
    }
}
