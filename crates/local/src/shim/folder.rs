//! The layout of a node's folder.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_core::action::Fence;
use muster_core::ids::NodeId;

use super::launch::LaunchSpec;
use super::lock;
use super::state::ShimState;
use crate::files;

/// The folder of one node, readable by its owner only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFolder {
    node: NodeId,
    path: PathBuf,
}

impl NodeFolder {
    /// Returns the folder of a node inside `parent`.
    pub fn new(parent: &Path, node: NodeId) -> Self {
        Self { node, path: parent.join(node.to_string()) }
    }

    /// Lists the node folders inside `parent`; empty if it does not exist. Entries that are not named by an id are
    /// skipped.
    pub fn list(parent: &Path) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut folders = Vec::new();
        for entry in entries {
            let entry = entry?;
            if let Some(node) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                folders.push(Self { node, path: entry.path() });
            }
        }
        Ok(folders)
    }

    pub(super) fn at(path: PathBuf, node: NodeId) -> Self {
        Self { node, path }
    }

    /// Returns the id of the node.
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the folder. Only the server calls this: a late shim must not recreate a removed folder.
    pub fn create(&self) -> io::Result<()> {
        files::make_folder(&self.path)
    }

    /// Returns the current log file; rotated files are beside it.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Lists all log files, oldest first.
    pub fn logs(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut logs = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            // A shim that is killed during rotation leaves a gap in the numbers.
            let age = match name.to_str() {
                Some("log") => Some(0),
                name => name.and_then(|name| name.strip_prefix("log.")?.parse::<u32>().ok()),
            };
            logs.extend(age.map(|age| (Reverse(age), self.path.join(&name))));
        }
        logs.sort();
        Ok(logs.into_iter().map(|(_, file)| file).collect())
    }

    /// Returns the file with the times at which lines were written.
    pub fn times(&self) -> PathBuf {
        self.path.join("times")
    }

    /// Returns the file with the node's name, which labels the logs once the node's row is deleted.
    pub fn name_file(&self) -> PathBuf {
        self.path.join("name.json")
    }

    /// Returns the file with the name of the node within its framework, by which files of its tasks are found once it is
    /// removed.
    pub(crate) fn framework_name_file(&self) -> PathBuf {
        self.path.join("framework_name.json")
    }

    pub(super) fn older_log(&self, age: u32) -> PathBuf {
        self.path.join(format!("log.{age}"))
    }

    fn state(&self) -> PathBuf {
        self.path.join("state.json")
    }

    /// Reads the highest generation that the node has seen.
    pub(crate) fn highest_generation(&self) -> io::Result<Fence> {
        lock::read_highest_generation(self)
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Reads the state that the shim recorded last; `None` if there is none.
    pub(super) fn read_state(&self) -> io::Result<Option<ShimState>> {
        match fs::read(self.state()) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write_state(&self, state: &ShimState) -> io::Result<()> {
        files::write(&self.state(), state)
    }

    pub(super) fn write_launch(&self, launch: &LaunchSpec) -> io::Result<()> {
        files::write(&self.path.join("launch.json"), launch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_nodes_are_found_by_their_names() {
        let parent = tempfile::tempdir().unwrap();
        let below = parent.path().join("nodes");
        assert_eq!(NodeFolder::list(&below).unwrap(), []);
        let folder = NodeFolder::new(&below, NodeId::from_uuid(uuid::Uuid::from_u128(7)));
        folder.create().unwrap();
        fs::create_dir(below.join("something else")).unwrap();
        assert_eq!(NodeFolder::list(&below).unwrap(), [folder]);
    }
}
