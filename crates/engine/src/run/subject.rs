//! The subject of an action, as it was read: a cluster and its members, or a node without a cluster.

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
pub(crate) struct RunSubject {
    pub(crate) cluster: Cluster,
    /// The cluster before its changed intent, until a commit has written that.
    pub(crate) uncommitted: Option<Box<Cluster>>,
    /// True if the cluster is stored; otherwise it is the virtual cluster of an orphan.
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
    /// The reasons why a delegated cluster differs from its object, as last observed.
    pub(crate) obstacles: Vec<String>,
}

impl RunSubject {
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Returns the cluster with its members as the baseline of size changes.
    pub(crate) fn intent(&self) -> Intent<'_> {
        let baseline = Baseline::Members(self.nodes.as_slice());
        Intent { cluster: &self.cluster, baseline, limit: self.node_limit }
    }

    /// Changes the intent of the cluster in memory. The action has to commit it, or the change is taken back at its end.
    pub(crate) fn change_intent(&mut self, after: Cluster) {
        let before = std::mem::replace(&mut self.cluster, after);
        self.cluster.generation = before.generation + 1;
        self.uncommitted.get_or_insert_with(|| Box::new(before));
    }

    /// Applies a change of sizes to the cluster in memory.
    pub(crate) fn change_sizes(&mut self, change: &Change, data: &ActionData) -> Result<(), Stop> {
        let after = self.intent().after(change, data)?;
        self.change_intent(after);
        Ok(())
    }

    /// Restores the intent that the cluster's row has. The last commit of an action that did not succeed must not
    /// write a change that was never applied; observations stay.
    pub(crate) fn take_back_uncommitted(&mut self) {
        let Some(before) = self.uncommitted.take() else { return };
        let observed = std::mem::take(&mut self.cluster.observed);
        self.restore_profile(before.profile_id);
        self.cluster = Cluster { observed, ..*before };
    }

    /// Returns the cluster to the profile that it had before an update.
    pub(crate) fn restore_profile(&mut self, id: ProfileId) {
        self.cluster.profile_id = id;
        if let Some(before) = self.profiles.get(&id) {
            self.profile = before.clone();
        }
    }

    /// Returns the group that a change names, else the first group.
    pub(crate) fn changed_group(&self, change: &Change) -> Result<String, Stop> {
        let first = || self.cluster.groups.first().map(|group| group.name.clone());
        let group = change.group().map(str::to_owned).or_else(first);
        group.ok_or_else(|| Stop::Failed("its cluster has no workers".to_owned()))
    }

    /// Returns the cluster as an action writes it; none for the virtual cluster of an orphan, and for history.
    pub(crate) fn row(&self, action: &Action) -> Option<Cluster> {
        (self.stored && !action.collects_garbage()).then(|| self.cluster.clone())
    }

    /// Returns the target of the provider's reads.
    pub(crate) const fn as_target(&self) -> ClusterTarget<'_> {
        ClusterTarget { cluster: &self.cluster, profile: &self.profile }
    }

    /// Returns true if other actions may work on other nodes of the cluster, while an action of this kind works on its
    /// target.
    pub(crate) fn is_shared(&self, kind: ActionKind) -> bool {
        self.stored && self.target.is_some() && !kind.locks_cluster()
    }

    /// Returns the nodes that only an action of this kind works on. A node of an unknown role is left to the newer
    /// version that knows the role.
    pub(crate) fn own_nodes(&self, kind: ActionKind) -> impl Iterator<Item = &Node> {
        let only = self.target.as_ref().filter(|_| self.is_shared(kind)).map(|target| target.id);
        let own = move |node: &&Node| only.is_none_or(|only| node.id == only);
        self.nodes.iter().filter(own).filter(|node| node.has_known_role())
    }

    /// Returns true if an operator owns the members.
    pub(crate) fn is_delegated(&self) -> bool {
        matches!(self.capabilities.membership, Membership::Delegated(_))
    }

    /// Returns the capabilities of the operator that owns the members, if one does.
    pub(crate) fn operator(&self) -> Option<OperatorCapabilities> {
        match self.capabilities.membership {
            Membership::Delegated(operator) => Some(operator),
            Membership::Individual => None,
        }
    }

    /// Returns the profile that a node is created from. Nodes of types without orphans always follow their cluster's.
    pub(crate) fn profile_of(&self, node: &Node) -> &Profile {
        let own = self.profiles.get(&node.profile_id).filter(|_| self.capabilities.orphans);
        own.unwrap_or(&self.profile)
    }

    /// Returns the profile that a node's row names, else the cluster's.
    pub(crate) fn profile_of_row(&self, node: &Node) -> &Profile {
        self.profiles.get(&node.profile_id).unwrap_or(&self.profile)
    }

    /// Returns true if all nodes follow their cluster's profile.
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

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use uuid::Uuid;

    use crate::ports::provider::Membership;
    use crate::run::sample::subject;

    use super::*;

    fn with_size(cluster: &Cluster, desired: u32) -> Cluster {
        let mut after = cluster.clone();
        after.groups[0].desired = desired;
        after
    }

    #[test]
    fn changes_that_no_commit_has_written_are_taken_back_and_observations_stay() {
        let mut subject = subject(vec![sample::node(1), sample::node(2)], Membership::Individual);
        let before = subject.cluster.clone();
        let other = Profile { id: ProfileId::from_uuid(Uuid::from_u128(9)), ..subject.profile.clone() };
        let after = Cluster { profile_id: other.id, ..with_size(&before, 7) };
        subject.change_intent(after);
        subject.change_profile(other);
        subject.change_intent(with_size(&subject.cluster, 8));
        assert_eq!((subject.cluster.desired(), subject.cluster.generation), (8, before.generation + 2));
        subject.cluster.observed.outdated = vec!["observed".to_owned()];
        subject.take_back_uncommitted();
        assert_eq!(subject.profile.id, before.profile_id);
        assert_eq!(std::mem::take(&mut subject.cluster.observed.outdated), ["observed"]);
        assert_eq!(subject.cluster, before);
    }

    #[test]
    fn a_committed_change_is_not_taken_back() {
        let mut subject = subject(vec![sample::node(1)], Membership::Individual);
        subject.change_intent(with_size(&subject.cluster, 7));
        subject.uncommitted = None;
        subject.take_back_uncommitted();
        assert_eq!(subject.cluster.desired(), 7);
    }
}
