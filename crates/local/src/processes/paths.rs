//! The paths of the files of clusters and nodes.
//!
//! ```text
//!  <folder>/<cluster id>/database.json        id of the database that has the cluster's row
//!  <folder>/<cluster id>/head.json            endpoints and ports of the head
//!  <folder>/<cluster id>/ports.json           ports reserved for a head that has not been ready yet
//!  <folder>/<cluster id>/versions.json        versions of Python and the framework that the head runs
//!  <folder>/<cluster id>/secret.json          secret of the cluster's nodes and clients
//!  <folder>/<cluster id>/short.json           path of a link to `short/` that is short enough for sockets
//!  <folder>/<cluster id>/short/               files of the framework that need short paths
//!  <folder>/<cluster id>/short/tmp/<index>/   temporary files of a node
//!  <folder>/<cluster id>/kept/                files of the framework that survive restarts of nodes
//!  <folder>/<cluster id>/<node id>/           the shim's files and the log
//!  <folder>/<cluster id>/<node id>/seat.json  record of the node: name, readiness, drain, accelerators
//!  <folder>/<cluster id>/<node id>/work/      default working directory of the node
//!  <folder>/<node id>/database.json           id of the database that has the row of a plain process
//!  <folder>/<node id>/<node id>/              the shim's files of a plain process, which may change its cluster
//! ```

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::Node;
use muster_engine::ports::provider::ProviderResource;
use serde::de::DeserializeOwned;

use crate::files;
use crate::shim::NodeFolder;

/// The file with the id of the database.
const DATABASE: &str = "database.json";

/// Returns the paths of files of clusters and nodes.
#[derive(Debug, Clone)]
pub(super) struct LocalPaths {
    root: PathBuf,
}

impl LocalPaths {
    pub(super) const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(super) fn cluster(&self, id: ClusterId) -> PathBuf {
        self.root.join(id.to_string())
    }

    pub(super) fn node(&self, cluster: ClusterId, node: NodeId) -> NodeFolder {
        NodeFolder::new(&self.cluster(cluster), node)
    }

    /// Returns the folder of a plain process, which depends on no cluster.
    pub(super) fn standalone_node(&self, node: NodeId) -> PathBuf {
        self.root.join(node.to_string())
    }

    /// Returns the folder for files of the framework that survive restarts of nodes.
    pub(super) fn preserved(&self, cluster: ClusterId) -> PathBuf {
        self.cluster(cluster).join("kept")
    }

    /// Returns the file with the versions of what the head runs.
    pub(super) fn versions_file(&self, cluster: ClusterId) -> PathBuf {
        self.cluster(cluster).join("versions.json")
    }

    /// Returns the file with the short path of the folder for sockets.
    pub(super) fn short_file(&self, cluster: ClusterId) -> PathBuf {
        self.cluster(cluster).join("short.json")
    }

    /// Returns the folder for sockets, to which the short path links.
    pub(super) fn short_target(&self, cluster: ClusterId) -> PathBuf {
        self.cluster(cluster).join("short")
    }

    /// Returns the folder for temporary files of a node.
    pub(super) fn temporary(&self, cluster: ClusterId, node: &Node) -> PathBuf {
        temporary(&self.short_target(cluster), node)
    }

    /// Records the database that has the row of a cluster or plain process.
    pub(super) fn record_database(folder: &Path, database: &str) -> io::Result<()> {
        files::write(&folder.join(DATABASE), &database)
    }

    /// Lists the clusters and plain processes whose rows are in this database.
    pub(super) fn resources_of(&self, database: &str) -> io::Result<Vec<ProviderResource>> {
        let mut resources = Vec::new();
        for folder in NodeFolder::list(&self.root)? {
            if read_json(&folder.path().join(DATABASE)).is_none_or(|recorded: String| recorded != database) {
                continue;
            }
            let node = folder.node();
            let is_single = NodeFolder::new(folder.path(), node).path().is_dir();
            let cluster = ClusterId::from_uuid(*node.as_uuid());
            resources.push(if is_single {
                ProviderResource::Node(node)
            } else {
                ProviderResource::Cluster(cluster)
            });
        }
        Ok(resources)
    }

    /// Lists the folders of all clusters and plain processes.
    pub(super) fn clusters(&self) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(&self.root)?.map(|entry| Ok(entry?.path())).collect()
    }

    /// Lists the folders of a cluster's nodes, which includes nodes that no longer run.
    pub(super) fn nodes(&self, cluster: ClusterId) -> io::Result<Vec<NodeFolder>> {
        NodeFolder::list(&self.cluster(cluster))
    }
}

/// Name of the folder for temporary files inside the folder for sockets.
pub(super) const TEMPORARY: &str = "tmp";

/// Returns the folder for temporary files of a node. It is named by the node's index, which is shorter than the id, and
/// is never reused within a cluster.
pub(super) fn temporary(short: &Path, node: &Node) -> PathBuf {
    short.join(TEMPORARY).join(node.index.to_string())
}

/// Returns the default working directory of a node.
pub(super) fn working_folder(folder: &NodeFolder) -> PathBuf {
    folder.path().join("work")
}

/// Reads a value from a JSON file; `None` if the file is missing or invalid.
pub(super) fn read_json<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// The highest number of bytes of a cluster's name in the name of its log folder: file systems limit the length of
/// names.
const MAX_NAME_BYTES: usize = 100;

/// Returns the name of the folder for a cluster's retained logs: the possibly shortened name of the cluster, and its
/// id.
pub(super) fn retained_logs_name(cluster: &str, id: &str) -> String {
    let end = cluster.floor_char_boundary(MAX_NAME_BYTES);
    let unsafe_characters = |character: char| character == '/' || character.is_control();
    let name = cluster[..end].replace(unsafe_characters, "_");
    // A folder whose name begins with a dot is hidden.
    format!("{}-{id}", name.trim_start_matches('.'))
}

/// Moves the logs of a node to the retained logs: `<node id>.log`, `<node id>.log.1`, …, with their times
/// (`<node id>.times`) and the node's name (`<node id>.name.json`).
pub(super) fn retain_logs(folder: &NodeFolder, to: &Path) -> io::Result<()> {
    let logs = folder.logs()?;
    if logs.is_empty() {
        return Ok(());
    }
    files::make_folder(to)?;
    let metadata = [folder.times(), folder.name_file()].into_iter().filter(|file| file.exists());
    for file in logs.into_iter().chain(metadata) {
        let Some(name) = file.file_name().and_then(OsStr::to_str) else { continue };
        fs::rename(&file, to.join(format!("{}.{name}", folder.node())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn resources_are_listed_by_the_database_that_has_their_row() {
        let root = tempfile::tempdir().unwrap();
        let paths = LocalPaths::new(root.path().to_owned());
        let ids: Vec<uuid::Uuid> = (1..=4).map(uuid::Uuid::from_u128).collect();
        let (cluster, node) = (ClusterId::from_uuid(ids[0]), NodeId::from_uuid(ids[1]));
        for (id, database) in ids.iter().zip([Some("ours"), Some("ours"), Some("theirs"), None]) {
            let folder = root.path().join(id.to_string());
            files::make_folder(&folder).unwrap();
            if let Some(database) = database {
                LocalPaths::record_database(&folder, database).unwrap();
            }
        }
        NodeFolder::new(&paths.standalone_node(node), node).create().unwrap();
        let mut resources = paths.resources_of("ours").unwrap();
        resources.sort_by_key(|resource| matches!(resource, ProviderResource::Node(_)));
        assert_eq!(resources, [ProviderResource::Cluster(cluster), ProviderResource::Node(node)]);
    }

    #[rstest]
    #[case::plain("fred", "fred-1")]
    #[case::long(&"x".repeat(255), &format!("{}-1", "x".repeat(100)))]
    #[case::of_several_bytes(&"集".repeat(255), &format!("{}-1", "集".repeat(33)))]
    #[case::a_path("../../a/b", "_.._a_b-1")]
    fn the_folder_of_retained_logs_has_a_valid_name(#[case] cluster: &str, #[case] expected: &str) {
        assert_eq!(retained_logs_name(cluster, "1"), expected);
    }
}
