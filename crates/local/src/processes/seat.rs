//! What is to be remembered of a node between its start and its end.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use muster_core::action::Fence;
use muster_core::ids::ClusterId;
use muster_core::node::{Node, NodeRole};
use muster_frameworks::Names;
use serde::{Deserialize, Serialize};

use super::place;
use crate::files;
use crate::shim::NodeFolder;

/// What the framework calls a node, and whether it has worked since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seat {
    pub(super) name: String,
    pub(super) works: bool,
    /// Whether its head was asked to drain it, and gives it no more work.
    #[serde(default)]
    pub(super) draining: bool,
    /// The accelerators that it was given.
    #[serde(default)]
    pub(super) gpus: Vec<u32>,
}

impl Seat {
    /// Where a node is called as it likes, a new name for every start: a framework may still count the one before.
    pub(super) fn new(cluster: ClusterId, node: &Node, generation: Fence, names: Names) -> Self {
        let first = node.created_at.is_none() && node.starts.len() <= 1;
        let name = match names {
            Names::Addresses => address(cluster, node).to_string(),
            Names::Free if first => node.name.clone(),
            Names::Free => format!("{}~{}", node.name, generation.0),
        };
        Self { name, works: false, draining: false, gpus: Vec::new() }
    }

    pub(super) fn of(folder: &NodeFolder) -> Option<Self> {
        place::read(&file(folder))
    }

    pub(super) fn keep(&self, folder: &NodeFolder) -> io::Result<()> {
        files::write(&file(folder), self)
    }
}

/// An address of this machine that no other node of the cluster has, nor, as far as there is room, one of another.
fn address(cluster: ClusterId, node: &Node) -> Ipv4Addr {
    if node.role == NodeRole::Head {
        return Ipv4Addr::LOCALHOST;
    }
    let [.., mark] = *cluster.as_uuid().as_bytes();
    // The head is at 127.0.0.1; 0 and 255 at the end are not for hosts.
    let place = u32::try_from(node.index).unwrap_or_default();
    let [_, _, above, below] = (place / 254 * 256 + place % 254 + 1).to_be_bytes();
    Ipv4Addr::new(127, mark % 254 + 1, above, below)
}

fn file(folder: &NodeFolder) -> PathBuf {
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
