//! What the next commit of an action writes.

use std::collections::HashSet;

use muster_core::event::Event;
use muster_core::ids::{ActionId, NodeId};
use muster_core::node::Node;
use muster_store::commands::{End, Record};

use crate::policy::Effects;

/// Changes in memory that no commit has written yet.
#[derive(Default)]
pub(crate) struct Journal {
    /// Nodes whose rows differ.
    pub(crate) dirty: HashSet<NodeId>,
    /// Nodes among these that have no rows yet.
    pub(crate) unborn: HashSet<NodeId>,
    /// Nodes among these whose cluster, group or profile changed.
    pub(crate) relocated: HashSet<NodeId>,
    /// Nodes that left the cluster.
    pub(crate) moved: Vec<Node>,
    /// Members whose rows are removed.
    pub(crate) gone: Vec<NodeId>,
    /// Child actions that ended.
    pub(crate) ended: Vec<(End, Vec<ActionId>)>,
    pub(crate) events: Vec<Event>,
    /// What policies change beside the action; bindings are written with its end.
    pub(crate) effects: Effects,
}

impl Journal {
    /// Whether a commit would write nothing of this.
    pub(crate) fn is_empty(&self) -> bool {
        let nodes = self.dirty.is_empty() && self.moved.is_empty() && self.gone.is_empty();
        nodes && self.ended.is_empty() && self.events.is_empty()
    }

    /// Moves everything into a commit.
    pub(super) fn drain_into(&mut self, record: &mut Record, nodes: &[Node]) {
        let (dirty, unborn) = (std::mem::take(&mut self.dirty), std::mem::take(&mut self.unborn));
        let dirty = nodes.iter().filter(|node| dirty.contains(&node.id)).cloned();
        (record.new_nodes, record.nodes) = dirty.partition(|node| unborn.contains(&node.id));
        let relocated = std::mem::take(&mut self.relocated);
        record.moved_nodes = std::mem::take(&mut self.moved);
        record.moved_nodes.extend(record.nodes.extract_if(.., |node| relocated.contains(&node.id)));
        record.gone_nodes = std::mem::take(&mut self.gone);
        record.ended_children = std::mem::take(&mut self.ended);
        record.events = std::mem::take(&mut self.events);
    }

    /// Drops pending changes of these nodes.
    pub(super) fn forget(&mut self, gone: &HashSet<NodeId>) {
        self.dirty.retain(|id| !gone.contains(id));
        self.unborn.retain(|id| !gone.contains(id));
    }
}
