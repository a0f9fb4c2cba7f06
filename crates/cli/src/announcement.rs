//! What a server says of itself in its data folder, for commands to find it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::files::write_private;

/// Where a server is, and which one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Announcement {
    pub(crate) server_id: String,
    pub(crate) version: String,
    pub(crate) rest: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) tls: bool,
    pub(crate) pid: i32,
    /// A command started it, and may start it again.
    #[serde(default)]
    pub(crate) detached: bool,
}

impl Announcement {
    /// Its file in a data folder.
    pub(crate) fn file(folder: &Path) -> PathBuf {
        folder.join("server.json")
    }

    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read(Self::file(folder)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        write_private(&Self::file(folder), &serde_json::to_vec_pretty(self)?)
    }
}
