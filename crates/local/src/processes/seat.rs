//! What is to be remembered of a node between its start and its end.

use std::io;
use std::path::PathBuf;

use muster_core::action::Fence;
use muster_core::node::Node;
use serde::{Deserialize, Serialize};

use super::place;
use crate::files;
use crate::shim::NodeFolder;

/// What the framework calls a node, and whether it has worked since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seat {
    pub(super) name: String,
    pub(super) works: bool,
}

impl Seat {
    /// A new name for every start: a framework may still count the one before.
    pub(super) fn new(node: &Node, generation: Fence) -> Self {
        let first = node.created_at.is_none() && node.starts.len() <= 1;
        let name = if first { node.name.clone() } else { format!("{}~{}", node.name, generation.0) };
        Self { name, works: false }
    }

    pub(super) fn of(folder: &NodeFolder) -> Option<Self> {
        place::read(&file(folder))
    }

    pub(super) fn keep(&self, folder: &NodeFolder) -> io::Result<()> {
        files::write(&file(folder), self)
    }
}

fn file(folder: &NodeFolder) -> PathBuf {
    folder.path().join("seat.json")
}
