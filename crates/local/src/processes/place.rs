//! Where the files of clusters and nodes are.
//!
//! ```text
//!  <folder>/<cluster id>/head.json            where the head answers, and its ports
//!  <folder>/<cluster id>/<node id>/           the shim's files and the log
//!  <folder>/<cluster id>/<node id>/seat.json  what the framework calls the node, and whether it has worked
//!  <folder>/<cluster id>/<node id>/work/      where it runs
//! ```

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use muster_core::ids::{ClusterId, NodeId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::shim::NodeFolder;

/// The folders of all clusters.
#[derive(Debug, Clone)]
pub(super) struct Places {
    root: PathBuf,
}

impl Places {
    pub(super) const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(super) fn cluster(&self, id: ClusterId) -> PathBuf {
        self.root.join(id.to_string())
    }

    pub(super) fn node(&self, cluster: ClusterId, node: NodeId) -> NodeFolder {
        NodeFolder::new(&self.cluster(cluster), node)
    }

    /// All nodes that ever ran in a cluster and whose files are still there.
    pub(super) fn nodes(&self, cluster: ClusterId) -> io::Result<Vec<NodeFolder>> {
        let folder = self.cluster(cluster);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            if let Some(id) = name.to_str().and_then(|name| name.parse().ok()) {
                found.push(NodeFolder::new(&folder, id));
            }
        }
        Ok(found)
    }
}

/// Where a node runs.
pub(super) fn work(folder: &NodeFolder) -> PathBuf {
    folder.path().join("work")
}

/// Makes a folder for its owner only; one that is there is what is wanted.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a file as a whole or not at all, for its owner only.
pub(super) fn write(file: &Path, value: &impl Serialize) -> io::Result<()> {
    let draft = file.with_extension("new");
    let mut open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    open.write_all(&serde_json::to_vec_pretty(value)?)?;
    fs::rename(draft, file)
}

/// Reads a file; nothing if it is not there, or not readable as what it should be.
pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Moves the logs of a node to where they are kept: `<node id>.log`, `<node id>.log.1`, ….
pub(super) fn put_logs_away(folder: &NodeFolder, to: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder.path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| *name == "log" || name.starts_with("log.")) else {
            continue;
        };
        make(to)?;
        fs::rename(entry.path(), to.join(format!("{}.{name}", folder.node())))?;
    }
    Ok(())
}
