//! Where the files of clusters and nodes are.
//!
//! ```text
//!  <folder>/<cluster id>/database.json        which database has the cluster's row
//!  <folder>/<cluster id>/head.json            where the head answers, and its ports
//!  <folder>/<cluster id>/ports.json           ports that were chosen for the head, and that it has not worked with yet
//!  <folder>/<cluster id>/secret.json          what its nodes and clients know, and nobody else
//!  <folder>/<cluster id>/short.json           where its folder for sockets is, a link to the next
//!  <folder>/<cluster id>/short/               what the framework keeps where paths have to be short
//!  <folder>/<cluster id>/short/tmp/<index>/   what a node needs for a while
//!  <folder>/<cluster id>/kept/                what the framework keeps when nodes are started anew
//!  <folder>/<cluster id>/<node id>/           the shim's files and the log
//!  <folder>/<cluster id>/<node id>/seat.json  what the framework calls the node, and whether it has worked
//!  <folder>/<cluster id>/<node id>/work/      where it runs
//!  <folder>/<node id>/database.json           which database has the row of a node that can be in no cluster
//!  <folder>/<node id>/<node id>/              the same, of a node that can be in no cluster, or in another one later
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

/// The file with the id of a database.
const DATABASE: &str = "database.json";

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

    /// The folder that is only there for a node that depends on no cluster.
    pub(super) fn own(&self, node: NodeId) -> PathBuf {
        self.root.join(node.to_string())
    }

    /// What the framework keeps when nodes are started anew.
    pub(super) fn kept(&self, cluster: ClusterId) -> PathBuf {
        self.cluster(cluster).join("kept")
    }

    /// Tells where the folder for sockets is.
    pub(super) fn short_file(&self, cluster: ClusterId) -> PathBuf {
        self.cluster(cluster).join("short.json")
    }

    /// What the folder for sockets is a link to.
    pub(super) fn behind_short(&self, cluster: ClusterId) -> PathBuf {
        self.cluster(cluster).join("short")
    }

    /// Where a node has what it needs for a while.
    pub(super) fn temporary(&self, cluster: ClusterId, node: &Node) -> PathBuf {
        temporary(&self.behind_short(cluster), node)
    }

    /// Notes which database has the row of a cluster, or of a node that depends on none.
    pub(super) fn note_database(folder: &Path, database: &str) -> io::Result<()> {
        files::write(&folder.join(DATABASE), &database)
    }

    /// All that was made with this database.
    pub(super) fn resources_of(&self, database: &str) -> io::Result<Vec<ProviderResource>> {
        let mut made = Vec::new();
        for folder in NodeFolder::all(&self.root)? {
            if read(&folder.path().join(DATABASE)).is_none_or(|noted: String| noted != database) {
                continue;
            }
            let node = folder.node();
            let is_single = NodeFolder::new(folder.path(), node).path().is_dir();
            let cluster = ClusterId::from_uuid(*node.as_uuid());
            made.push(if is_single {
                ProviderResource::Node(node)
            } else {
                ProviderResource::Cluster(cluster)
            });
        }
        Ok(made)
    }

    /// The folders of all clusters.
    pub(super) fn clusters(&self) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(&self.root)?.map(|entry| Ok(entry?.path())).collect()
    }

    /// All nodes that ever ran in a cluster and whose files are still there.
    pub(super) fn nodes(&self, cluster: ClusterId) -> io::Result<Vec<NodeFolder>> {
        NodeFolder::all(&self.cluster(cluster))
    }
}

/// Where the nodes of a cluster have what they need for a while, in the folder for sockets.
pub(super) const TEMPORARY: &str = "tmp";

/// The same for one of them. Its index is shorter than its id, and no other of its cluster ever has the same.
pub(super) fn temporary(short: &Path, node: &Node) -> PathBuf {
    short.join(TEMPORARY).join(node.index.to_string())
}

/// Where a node runs.
pub(super) fn work(folder: &NodeFolder) -> PathBuf {
    folder.path().join("work")
}

/// Reads a file; nothing if it is not there, or not readable as what it should be.
pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// How many bytes of a cluster's name are part of a folder's name, which the file system limits.
const NAME_BYTES: usize = 100;

/// The name of the folder in which the logs of a cluster are kept: as much of its name as a folder can have, and its id.
pub(super) fn kept_name(cluster: &str, id: &str) -> String {
    let end = cluster.floor_char_boundary(NAME_BYTES);
    let unsafe_characters = |character: char| character == '/' || character.is_control();
    let name = cluster[..end].replace(unsafe_characters, "_");
    // A folder whose name begins with a dot is hidden.
    format!("{}-{id}", name.trim_start_matches('.'))
}

/// Moves the logs of a node to where they are kept: `<node id>.log`, `<node id>.log.1`, ….
pub(super) fn put_logs_away(folder: &NodeFolder, to: &Path) -> io::Result<()> {
    for log in folder.logs()? {
        let Some(name) = log.file_name().and_then(OsStr::to_str) else { continue };
        files::make_folder(to)?;
        fs::rename(&log, to.join(format!("{}.{name}", folder.node())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn what_was_made_is_known_by_the_database_that_has_its_row() {
        let root = tempfile::tempdir().unwrap();
        let places = Places::new(root.path().to_owned());
        let ids: Vec<uuid::Uuid> = (1..=4).map(uuid::Uuid::from_u128).collect();
        let (cluster, node) = (ClusterId::from_uuid(ids[0]), NodeId::from_uuid(ids[1]));
        for (id, database) in ids.iter().zip([Some("ours"), Some("ours"), Some("theirs"), None]) {
            let folder = root.path().join(id.to_string());
            files::make_folder(&folder).unwrap();
            if let Some(database) = database {
                Places::note_database(&folder, database).unwrap();
            }
        }
        NodeFolder::new(&places.own(node), node).make().unwrap();
        let mut made = places.resources_of("ours").unwrap();
        made.sort_by_key(|made| matches!(made, ProviderResource::Node(_)));
        assert_eq!(made, [ProviderResource::Cluster(cluster), ProviderResource::Node(node)]);
    }

    #[rstest]
    #[case::plain("fred", "fred-1")]
    #[case::long(&"x".repeat(255), &format!("{}-1", "x".repeat(100)))]
    #[case::of_several_bytes(&"集".repeat(255), &format!("{}-1", "集".repeat(33)))]
    #[case::a_path("../../a/b", "_.._a_b-1")]
    fn logs_are_kept_under_a_name_that_a_folder_can_have(#[case] cluster: &str, #[case] expected: &str) {
        assert_eq!(kept_name(cluster, "1"), expected);
    }
}
