//! What an action works on, as it was read: a cluster and its members, or a node without a cluster.

use std::collections::{HashMap, HashSet};

use muster_core::cluster::Cluster;
use muster_core::ids::{NodeId, ProfileId};
use muster_core::node::Node;
use muster_core::policy::Binding;
use muster_core::profile::Profile;

use crate::intent::{Baseline, Intent};
use crate::ports::provider::{Capabilities, Membership};

/// A cluster and its members.
pub(crate) struct Subject {
    pub(crate) cluster: Cluster,
    /// Whether the cluster is stored; otherwise it is the virtual cluster of an orphan.
    pub(crate) stored: bool,
    pub(crate) profile: Profile,
    /// Profiles of members that do not follow their cluster's.
    pub(crate) profiles: HashMap<ProfileId, Profile>,
    /// The target node, as it was at the beginning.
    pub(crate) target: Option<Node>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) capabilities: Capabilities,
    /// The position of each node in `nodes`.
    pub(super) positions: HashMap<NodeId, usize>,
}

impl Subject {
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(*self.positions.get(&id)?)
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(*self.positions.get(&id)?)
    }

    pub(crate) fn add_nodes(&mut self, nodes: impl IntoIterator<Item = Node>) {
        for node in nodes {
            self.positions.insert(node.id, self.nodes.len());
            self.nodes.push(node);
        }
    }

    pub(super) fn remove_nodes(&mut self, gone: &HashSet<NodeId>) {
        self.nodes.retain(|node| !gone.contains(&node.id));
        self.positions = positions(&self.nodes);
    }

    /// The cluster with what changes of sizes are counted from.
    pub(super) fn intent(&self, limit: u32) -> Intent<'_> {
        Intent { cluster: &self.cluster, baseline: Baseline::Members(&self.nodes), limit }
    }

    /// Whether an operator owns its members.
    pub(crate) fn is_delegated(&self) -> bool {
        matches!(self.capabilities.membership, Membership::Delegated(_))
    }

    /// The profile that a node was created from. Nodes of types without orphans always have their cluster's.
    pub(crate) fn profile_of(&self, node: &Node) -> &Profile {
        let own = self.profiles.get(&node.profile_id).filter(|_| self.capabilities.orphans);
        own.unwrap_or(&self.profile)
    }

    /// The profile that a node's row names.
    pub(crate) fn profile_of_row(&self, node: &Node) -> &Profile {
        self.profiles.get(&node.profile_id).unwrap_or(&self.profile)
    }

    /// Whether all nodes follow their cluster's profile.
    pub(crate) fn has_one_profile(&self) -> bool {
        self.profiles.is_empty() || !self.capabilities.orphans
    }

    /// Groups these nodes by profile.
    pub(crate) fn by_profile(&self, ids: &[NodeId]) -> Vec<(Profile, Vec<Node>)> {
        let mut batches: Vec<(Profile, Vec<Node>)> = Vec::new();
        for node in ids.iter().filter_map(|id| self.node(*id)) {
            let profile = self.profile_of(node);
            match batches.iter_mut().find(|(known, _)| known.id == profile.id) {
                Some((_, nodes)) => nodes.push(node.clone()),
                None => batches.push((profile.clone(), vec![node.clone()])),
            }
        }
        batches
    }

    /// Sets the cluster's profile; members keep theirs until they are updated.
    pub(crate) fn change_profile(&mut self, profile: Profile) {
        let old = std::mem::replace(&mut self.profile, profile);
        self.profiles.insert(old.id, old);
    }
}

pub(super) fn positions(nodes: &[Node]) -> HashMap<NodeId, usize> {
    nodes.iter().enumerate().map(|(position, node)| (node.id, position)).collect()
}
