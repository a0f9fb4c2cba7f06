//! The provider of local processes, with what it needs of the data folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use muster_core::ids::InstanceId;
use muster_local::environments::Environments;
use muster_local::shim::{LogLimits, RuntimeFolder, Shims};
use muster_local::{Processes, Settings};
use uuid::Uuid;

use super::settings::Settings as ServerSettings;
use crate::files::write_private;

/// How often logs are looked for that are old enough to go.
const TIDY: Duration = Duration::from_hours(24);

/// Where the clusters of this machine are, below a data folder.
pub(crate) fn clusters_folder(data: &Path) -> PathBuf {
    data.join("local")
}

/// The Python environments of this data folder, and around this process.
pub(super) fn environments(data: &Path) -> Environments {
    Environments::new(data.join("frameworks"))
}

/// Runs processes in this data folder.
pub(super) fn processes(
    server: &ServerSettings,
    data: &Path,
    environments: Environments,
    database: String,
) -> Result<Processes> {
    let runtime = RuntimeFolder::standard().context("local processes need a folder for their sockets")?;
    let settings = Settings {
        folder: clusters_folder(data),
        log: LogLimits::default(),
        kept_logs: Some(data.join("logs")),
        start_within: Duration::from_secs(server.node_start_seconds.into()),
        gpus: server.gpus,
        database,
        configs: data.join("configs"),
    };
    let processes = Processes::new(instance(data)?, settings, Shims::of_this_program(runtime), environments);
    tokio::spawn(tidy(processes.clone(), server.retention().into()));
    Ok(processes)
}

/// Logs of clusters that are gone go too, in time; at the start, since not every server runs for a day.
async fn tidy(processes: Processes, keep: Duration) {
    let mut period = tokio::time::interval(TIDY);
    loop {
        period.tick().await;
        processes.purge_logs(keep).await;
    }
}

/// Which local instance this is: of this folder, on this machine.
fn instance(data: &Path) -> Result<InstanceId> {
    let file = data.join("instance");
    let own = match std::fs::read_to_string(&file) {
        Ok(text) => text.trim().parse().with_context(|| format!("{} holds no id", file.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let id = Uuid::new_v4();
            write_private(&file, format!("{id}\n").as_bytes())?;
            id
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    // A folder that was copied to another machine is another instance there: nothing of it runs there.
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let id = Uuid::new_v5(&own, machine.trim().as_bytes());
    Ok(InstanceId::new("local", &id.to_string()))
}
