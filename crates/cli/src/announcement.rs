//! The file `server.json` in the data folder, by which commands find the running server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::files::write_private;

/// The addresses and identity of a running server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Announcement {
    pub(crate) server_id: String,
    pub(crate) version: String,
    pub(crate) rest: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) tls: bool,
    pub(crate) pid: i32,
    /// True if a command started this server: commands start it again if it is killed.
    #[serde(default)]
    pub(crate) detached: bool,
}

impl Announcement {
    /// Returns the path of the file in a data folder.
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
