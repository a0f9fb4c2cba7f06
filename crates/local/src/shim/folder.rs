//! A node's folder: what is where.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_core::action::Fence;
use muster_core::ids::NodeId;

use super::launch::Launch;
use super::lock;
use super::state::State;
use crate::files;

/// The folder of one node, for its owner only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFolder {
    node: NodeId,
    path: PathBuf,
}

impl NodeFolder {
    /// The folder of a node below this one.
    pub fn new(parent: &Path, node: NodeId) -> Self {
        Self { node, path: parent.join(node.to_string()) }
    }

    /// The folders of all nodes below this one; none if it is not there. What is not named by an id is not ours.
    pub fn all(parent: &Path) -> io::Result<Vec<Self>> {
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

    /// The node.
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it. Only the server does: a shim that comes late must not bring back what was removed.
    pub fn make(&self) -> io::Result<()> {
        files::make_folder(&self.path)
    }

    /// The newest log; older ones are beside it.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// All logs that are there, oldest first.
    pub fn logs(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut logs = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            // A shim that was killed while it moved its logs leaves a gap in their ages.
            let age = match name.to_str() {
                Some("log") => Some(0),
                name => name.and_then(|name| name.strip_prefix("log.")?.parse::<u32>().ok()),
            };
            logs.extend(age.map(|age| (Reverse(age), self.path.join(&name))));
        }
        logs.sort();
        Ok(logs.into_iter().map(|(_, file)| file).collect())
    }

    pub(super) fn older_log(&self, age: u32) -> PathBuf {
        self.path.join(format!("log.{age}"))
    }

    fn state(&self) -> PathBuf {
        self.path.join("state.json")
    }

    /// The highest generation that the node has seen.
    pub(crate) fn highest_generation(&self) -> io::Result<Fence> {
        lock::highest(self)
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// What the shim wrote down last; nothing if it never did.
    pub(super) fn read_state(&self) -> io::Result<Option<State>> {
        match fs::read(self.state()) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write_state(&self, state: &State) -> io::Result<()> {
        files::write(&self.state(), state)
    }

    pub(super) fn write_launch(&self, launch: &Launch) -> io::Result<()> {
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
        assert_eq!(NodeFolder::all(&below).unwrap(), []);
        let folder = NodeFolder::new(&below, NodeId::from_uuid(uuid::Uuid::from_u128(7)));
        folder.make().unwrap();
        fs::create_dir(below.join("something else")).unwrap();
        assert_eq!(NodeFolder::all(&below).unwrap(), [folder]);
    }
}
