//! Starts the provider of local processes in the data folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use muster_core::ids::InstanceId;
use muster_core::time::TimeSpan;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_local::environments::Environments;
use muster_local::shim::{LogLimits, RuntimeFolder, Shims};
use muster_local::{LocalProvider, LocalSettings};
use uuid::Uuid;

use super::settings::ServerSettings;
use crate::files::write_private;

/// Interval at which expired logs and jobs are deleted.
const PURGE_PERIOD: Duration = Duration::from_hours(24);

/// Returns the folder of local clusters in a data folder.
pub(crate) fn clusters_folder(data: &Path) -> PathBuf {
    data.join("local")
}

/// Returns the Python environments of a data folder.
pub(super) fn environments(data: &Path) -> Environments {
    Environments::new(data.join("frameworks"))
}

/// Creates the provider, and starts deleting expired logs.
pub(super) fn processes(
    server: &ServerSettings,
    data: &Path,
    environments: Environments,
    database: String,
) -> Result<LocalProvider> {
    let runtime = RuntimeFolder::standard().context("local processes need a folder for their sockets")?;
    let settings = LocalSettings {
        folder: clusters_folder(data),
        log: LogLimits::default(),
        retained_logs: Some(data.join("logs")),
        start_timeout: Duration::from_secs(server.node_start_seconds.into()),
        gpus: server.gpus,
        database,
        configs: data.join("configs"),
    };
    let processes =
        LocalProvider::new(instance(data)?, settings, Shims::with_this_program(runtime), environments);
    tokio::spawn(purge_periodically(processes.clone(), server.retention().into()));
    Ok(processes)
}

/// Deletes expired logs and jobs of deleted clusters, at the start too: not every server runs for a day.
async fn purge_periodically(processes: LocalProvider, keep: Duration) {
    let mut period = tokio::time::interval(PURGE_PERIOD);
    loop {
        period.tick().await;
        processes.purge_logs(keep).await;
        let keep = TimeSpan::from_micros(i64::try_from(keep.as_micros()).unwrap_or(i64::MAX));
        processes.purge_jobs(SystemClock.now().before(keep)).await;
    }
}

/// Returns the id of the local instance: one per data folder and machine.
fn instance(data: &Path) -> Result<InstanceId> {
    let file = data.join("instance");
    let own = match std::fs::read_to_string(&file) {
        Ok(text) => text.trim().parse().with_context(|| format!("{} has no valid id", file.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let id = Uuid::new_v4();
            write_private(&file, format!("{id}\n").as_bytes())?;
            id
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    // A folder that was copied to another machine is another instance there: none of its processes run there.
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let id = Uuid::new_v5(&own, machine.trim().as_bytes());
    Ok(InstanceId::new("local", &id.to_string()))
}
