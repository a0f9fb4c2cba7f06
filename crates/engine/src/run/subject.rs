//! What an action works on, as it was read: a cluster and its members, or a node without a cluster.

use std::collections::HashMap;

use muster_core::action::{Action, ActionKind};
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::ids::{NodeId, ProfileId};
use muster_core::node::Node;
use muster_core::policy::Binding;
use muster_core::profile::Profile;

use crate::action_data::ActionData;
use crate::intent::{Baseline, Intent};
use crate::ports::provider::{Capabilities, ClusterTarget, Membership, OperatorCapabilities};
use crate::run::{Members, Stop};

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
    pub(crate) nodes: Members,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) capabilities: Capabilities,
    /// The most nodes that a cluster may have.
    pub(crate) node_limit: u32,
    /// What keeps a delegated cluster from being as its object says, as last observed.
    pub(crate) obstacles: Vec<String>,
}

impl Subject {
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// The cluster with what changes of sizes are counted from.
    pub(crate) fn intent(&self) -> Intent<'_> {
        let baseline = Baseline::Members(self.nodes.as_slice());
        Intent { cluster: &self.cluster, baseline, limit: self.node_limit }
    }

    /// Applies a change of sizes to the cluster in memory.
    pub(crate) fn change_sizes(&mut self, change: &Change, data: &ActionData) -> Result<(), Stop> {
        self.cluster = self.intent().after(change, data)?;
        self.cluster.generation += 1;
        Ok(())
    }

    /// The group that a change is about: the one that it names, else the first.
    pub(crate) fn changed_group(&self, change: &Change) -> Result<String, Stop> {
        let first = || self.cluster.groups.first().map(|group| group.name.clone());
        let group = change.group().map(str::to_owned).or_else(first);
        group.ok_or_else(|| Stop::Failed("its cluster has no workers".to_owned()))
    }

    /// The cluster as an action writes it, if it is a row that may change: history does not.
    pub(crate) fn row(&self, action: &Action) -> Option<Cluster> {
        (self.stored && !action.collects_garbage()).then(|| self.cluster.clone())
    }

    /// What reads of the provider are about.
    pub(crate) const fn as_target(&self) -> ClusterTarget<'_> {
        ClusterTarget { cluster: &self.cluster, profile: &self.profile }
    }

    /// Whether other actions may work on other nodes of the cluster, while an action of this kind works on its target.
    pub(crate) fn is_shared(&self, kind: ActionKind) -> bool {
        self.stored && self.target.is_some() && !kind.locks_cluster()
    }

    /// The nodes that only an action of this kind works on. A node of an unknown role belongs to a newer version.
    pub(crate) fn own_nodes(&self, kind: ActionKind) -> impl Iterator<Item = &Node> {
        let only = self.target.as_ref().filter(|_| self.is_shared(kind)).map(|target| target.id);
        let own = move |node: &&Node| only.is_none_or(|only| node.id == only);
        self.nodes.iter().filter(own).filter(|node| node.has_known_role())
    }

    /// Whether an operator owns its members.
    pub(crate) fn is_delegated(&self) -> bool {
        matches!(self.capabilities.membership, Membership::Delegated(_))
    }

    /// The operator that owns its members.
    pub(crate) fn operator(&self) -> Option<OperatorCapabilities> {
        match self.capabilities.membership {
            Membership::Delegated(operator) => Some(operator),
            Membership::Individual => None,
        }
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

    /// Moves a node to another profile.
    pub(crate) fn follow_profile(&mut self, id: NodeId, profile: Profile) {
        self.nodes.set_profile(id, profile.id);
        self.profiles.insert(profile.id, profile);
    }

    /// Moves a node to its cluster's profile.
    pub(crate) fn follow_cluster(&mut self, id: NodeId) {
        self.nodes.set_profile(id, self.profile.id);
    }
}
