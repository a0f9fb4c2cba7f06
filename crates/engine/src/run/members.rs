//! The members of a cluster, with the changes of their rows that no commit has written yet.

use std::collections::{HashMap, HashSet};

use muster_core::ids::{NodeId, ProfileId};
use muster_core::node::{Node, NodeStatus, Observation};
use muster_core::time::Timestamp;
use muster_store::commands::Record;

use crate::ports::provider::Observed;

/// The members in memory. Each change is remembered until a commit writes it.
#[derive(Default)]
pub(crate) struct Members {
    nodes: Vec<Node>,
    /// The position of each node in `nodes`.
    positions: HashMap<NodeId, usize>,
    /// Members that differ from their rows.
    changed: HashSet<NodeId>,
    /// Changed members that have no rows yet.
    new: HashSet<NodeId>,
    /// Changed members whose cluster, group or profile differs from their rows.
    relocated: HashSet<NodeId>,
    /// Nodes that left the cluster and stay as orphans.
    orphaned: Vec<Node>,
    /// Former members whose rows are deleted.
    deleted: Vec<NodeId>,
    /// Members whose start was recorded without a result, by an earlier engine or by an interrupted step.
    unconfirmed_starts: HashSet<NodeId>,
}

impl Members {
    /// Creates the members from their rows. Those that were starting may not have been started.
    pub(crate) fn new(nodes: Vec<Node>) -> Self {
        let starting = |node: &&Node| matches!(node.status, NodeStatus::Creating | NodeStatus::Recovering);
        let unconfirmed_starts = nodes.iter().filter(starting).map(|node| node.id).collect();
        Self { positions: positions(&nodes), nodes, unconfirmed_starts, ..Self::default() }
    }

    pub(crate) fn as_slice(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Node> {
        self.nodes.iter()
    }

    pub(crate) fn ids(&self) -> Vec<NodeId> {
        self.nodes.iter().map(|node| node.id).collect()
    }

    /// Returns the names of members that run with an older recipe than their cluster's.
    pub(crate) fn outdated_names(&self) -> Vec<String> {
        self.nodes.iter().filter(|node| node.is_outdated()).map(|node| node.name.clone()).collect()
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(*self.positions.get(&id)?)
    }

    /// Returns a member for a change, which the next commit writes.
    pub(crate) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        let node = self.nodes.get_mut(*self.positions.get(&id)?)?;
        self.changed.insert(id);
        Some(node)
    }

    pub(crate) fn set_status(&mut self, id: NodeId, status: NodeStatus, reason: &str, now: Timestamp) {
        if let Some(node) = self.get_mut(id) {
            node.status = status;
            reason.clone_into(&mut node.status_reason);
            node.updated_at = Some(now);
        }
    }

    /// Adds members in memory only: their rows are written already, or [`Self::insert`] follows.
    pub(crate) fn add(&mut self, nodes: impl IntoIterator<Item = Node>) {
        for node in nodes {
            self.positions.insert(node.id, self.nodes.len());
            self.nodes.push(node);
        }
    }

    /// Lets the next commit insert the rows of members that were added in memory.
    pub(crate) fn insert(&mut self, added: impl IntoIterator<Item = NodeId>) {
        for id in added.into_iter().filter(|id| self.positions.contains_key(id)) {
            self.changed.insert(id);
            self.new.insert(id);
        }
    }

    /// Adds members whose rows the next commit inserts.
    pub(crate) fn add_new(&mut self, nodes: Vec<Node>) {
        let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
        self.add(nodes);
        self.insert(ids);
    }

    /// Removes members in memory only, with their pending changes: their rows are written already.
    pub(crate) fn remove(&mut self, leaving: &HashSet<NodeId>) {
        self.nodes.retain(|node| !leaving.contains(&node.id));
        self.positions = positions(&self.nodes);
        self.changed.retain(|id| !leaving.contains(id));
        self.new.retain(|id| !leaving.contains(id));
    }

    /// Removes members, and their rows with the next commit. A row that was never written needs no removal.
    pub(crate) fn delete(&mut self, leaving: impl IntoIterator<Item = NodeId>) {
        let leaving: Vec<NodeId> = leaving.into_iter().collect();
        if leaving.is_empty() {
            return;
        }
        self.deleted.extend(leaving.iter().filter(|id| !self.new.contains(id)));
        self.remove(&leaving.into_iter().collect());
    }

    /// Turns members into orphans.
    pub(crate) fn orphan(&mut self, leaving: &HashSet<NodeId>, now: Timestamp) {
        let leavers = self.nodes.iter().filter(|node| leaving.contains(&node.id)).cloned();
        self.orphaned.extend(leavers.map(|node| Node { updated_at: Some(now), ..node.orphaned() }));
        self.remove(leaving);
    }

    /// Changes a node's cluster, group or profile.
    pub(crate) fn relocate(&mut self, node: Node) {
        let id = node.id;
        if let Some(row) = self.get_mut(id) {
            *row = node;
            self.relocated.insert(id);
        }
    }

    /// Moves a node to another profile.
    pub(crate) fn set_profile(&mut self, id: NodeId, profile_id: ProfileId) {
        if let Some(node) = self.get(id).cloned() {
            self.relocate(Node { profile_id, ..node });
        }
    }

    /// Changes those members that a condition holds for; the others are not written.
    pub(crate) fn change_where(&mut self, is_concerned: impl Fn(&Node) -> bool, change: impl Fn(&mut Node)) {
        let concerned: Vec<NodeId> =
            self.iter().filter(|node| is_concerned(node)).map(|node| node.id).collect();
        for id in concerned {
            if let Some(node) = self.get_mut(id) {
                change(node);
            }
        }
    }

    /// Marks recorded starts as interrupted: the next observation shows whether they happened.
    pub(crate) fn leave_starts_unconfirmed(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        self.unconfirmed_starts.extend(nodes);
    }

    /// Removes recorded starts that did not happen, because their engine died or was interrupted: they do not count
    /// against the node.
    pub(crate) fn remove_starts_that_did_not_happen(&mut self, observed: &Observed) {
        for id in std::mem::take(&mut self.unconfirmed_starts) {
            match observed.of(id) {
                Observation::Unknown { .. } => drop(self.unconfirmed_starts.insert(id)),
                Observation::Absent | Observation::Starting { .. } => {
                    self.get_mut(id).and_then(|node| node.starts.pop());
                }
                Observation::Running { .. } | Observation::Exited { .. } | Observation::HostRestarted => {}
            }
        }
    }

    /// Returns true if changes of members are pending.
    pub(super) fn have_changed(&self) -> bool {
        !(self.changed.is_empty() && self.orphaned.is_empty() && self.deleted.is_empty())
    }

    /// Moves all pending changes into a commit.
    pub(super) fn drain_into(&mut self, record: &mut Record) {
        let (changed, new) = (std::mem::take(&mut self.changed), std::mem::take(&mut self.new));
        let changed = self.nodes.iter().filter(|node| changed.contains(&node.id)).cloned();
        (record.new_nodes, record.nodes) = changed.partition(|node| new.contains(&node.id));
        let relocated = std::mem::take(&mut self.relocated);
        record.moved_nodes = std::mem::take(&mut self.orphaned);
        record.moved_nodes.extend(record.nodes.extract_if(.., |node| relocated.contains(&node.id)));
        record.gone_nodes = std::mem::take(&mut self.deleted);
    }
}

fn positions(nodes: &[Node]) -> HashMap<NodeId, usize> {
    nodes.iter().enumerate().map(|(position, node)| (node.id, position)).collect()
}

#[cfg(test)]
mod tests;
