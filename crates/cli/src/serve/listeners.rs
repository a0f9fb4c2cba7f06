//! The announcement of a server's addresses in its data folder, and the request to stop.

use std::path::PathBuf;

use anyhow::Result;
use muster_api::ServerInfo;
use muster_api::server::Ports;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::data::DataFolder;
use crate::announcement::Announcement;

/// The server's announcement, which commands read to find it; removed when the server stops in order.
pub(super) struct AnnouncementGuard {
    file: PathBuf,
}

impl AnnouncementGuard {
    /// Writes the announcement and logs the addresses.
    pub(super) fn write(
        folder: &DataFolder,
        info: &ServerInfo,
        ports: &Ports,
        tls: bool,
        detached: bool,
    ) -> Result<Self> {
        let (rest, grpc) = (ports.rest.local_addr()?, ports.grpc.local_addr()?);
        let announcement = Announcement {
            server_id: info.server_id.clone(),
            version: info.version.clone(),
            rest,
            grpc,
            tls,
            pid: std::process::id().cast_signed(),
            detached,
        };
        announcement.write(folder.path())?;
        tracing::info!(%rest, %grpc, data = %folder.path().display(), "serving");
        Ok(Self { file: Announcement::file(folder.path()) })
    }
}

impl Drop for AnnouncementGuard {
    fn drop(&mut self) {
        // Errors are ignored: commands check that the process of an announcement lives.
        drop(std::fs::remove_file(&self.file));
    }
}

/// Completes when a signal arrives or an admin requests the shutdown.
pub(super) fn stop_requested(
    shutdown: CancellationToken,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = shutdown.cancelled() => {}
        }
        tracing::info!("stopping: running actions are handed over, clusters keep running");
    })
}
