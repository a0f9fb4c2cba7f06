//! The record of a node in its folder: facts that its observation, drain and restart need.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::node::{Node, NodeRole};
use muster_core::time::Timestamp;
use muster_frameworks::WorkerNaming;
use serde::{Deserialize, Serialize};

use super::paths;
use crate::files;
use crate::shim::NodeFolder;

/// The content of `seat.json`, whose name and keys older servers read too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeRecord {
    /// The name under which the framework knows the node.
    pub(super) name: String,
    /// The name of the node's cluster; older servers did not record it.
    #[serde(default)]
    pub(super) cluster: String,
    /// True once the node has been ready since its last start.
    #[serde(rename = "works")]
    pub(super) was_ready: bool,
    /// True if the head was asked to drain the node, and gives it no more work.
    #[serde(default)]
    pub(super) draining: bool,
    /// The numbers of the assigned GPU devices.
    #[serde(default)]
    pub(super) gpus: Vec<u32>,
    /// The time at which the start was prepared.
    #[serde(default)]
    pub(super) prepared_at: Timestamp,
}

impl NodeRecord {
    /// Creates the record for a start. If the framework accepts any name, each start gets a new one: the framework may
    /// still count the worker of the previous start.
    pub(super) fn new(
        cluster: &Cluster,
        node: &Node,
        generation: Fence,
        names: WorkerNaming,
        now: Timestamp,
    ) -> Self {
        // Only an index is never reused: a name with another number may be the former name of a removed node.
        let unused = node.role == NodeRole::Head || node.name.ends_with(&format!("-{}", node.index));
        let first = unused && node.created_at.is_none() && node.starts.len() <= 1;
        let name = match names {
            WorkerNaming::LoopbackAddresses => address(cluster.id, node).to_string(),
            WorkerNaming::Free if first => node.name.clone(),
            WorkerNaming::Free => format!("{}~{}", node.name, generation.0),
        };
        let cluster = cluster.name.clone();
        Self { name, cluster, was_ready: false, draining: false, gpus: Vec::new(), prepared_at: now }
    }

    pub(super) fn read(folder: &NodeFolder) -> Option<Self> {
        paths::read_json(&record_file(folder))
    }

    pub(super) fn write(&self, folder: &NodeFolder) -> io::Result<()> {
        files::write(&record_file(folder), self)
    }
}

/// Returns a loopback address that no other node of the cluster has. Nodes of other clusters mostly have other
/// addresses, as the second byte depends on the cluster.
fn address(cluster: ClusterId, node: &Node) -> Ipv4Addr {
    if node.role == NodeRole::Head {
        return Ipv4Addr::LOCALHOST;
    }
    let [.., cluster_byte] = *cluster.as_uuid().as_bytes();
    // The head is at 127.0.0.1. A last byte of 0 or 255 is not a host address.
    let index = u32::try_from(node.index).unwrap_or_default();
    let [_, _, high, low] = (index / 254 * 256 + index % 254 + 1).to_be_bytes();
    Ipv4Addr::new(127, cluster_byte % 254 + 1, high, low)
}

fn record_file(folder: &NodeFolder) -> PathBuf {
    folder.path().join("seat.json")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use muster_core::sample;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn every_worker_of_a_cluster_has_an_address_of_its_own() {
        let [one, other] = [7, 8].map(|number| ClusterId::from_uuid(Uuid::from_u128(number)));
        let at = |cluster| (1..=600).map(move |index| address(cluster, &sample::node(index)));
        let all: HashSet<Ipv4Addr> = at(one).chain(at(other)).collect();
        assert_eq!(all.len(), 1200);
        assert!(all.iter().all(|address| address.is_loopback() && !matches!(address.octets()[3], 0 | 255)));
        assert!(!all.contains(&Ipv4Addr::LOCALHOST), "that is the head's");
    }
}
