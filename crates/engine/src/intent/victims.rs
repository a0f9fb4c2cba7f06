//! Chooses the members that are removed when a group shrinks.

use std::collections::{HashMap, HashSet};

use muster_core::candidates::{self, Candidate, Criterion};
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus};
use muster_core::time::Timestamp;

use crate::action_data::ActionData;

/// Returns the members that policies chose, else those that a resize or scale-in names. Other changes name the members
/// to remove in other fields.
pub(crate) fn chosen(change: &Change, data: &ActionData) -> Vec<NodeId> {
    let decided = data.deletion.as_ref().and_then(|deletion| deletion.candidates.clone());
    let named = || matches!(change, Change::Resize(_) | Change::ScaleIn(_)).then(|| change.named_victims());
    decided.or_else(|| named().flatten()).unwrap_or_default()
}

/// Returns the members beyond the size of their group: first the chosen ones, then unhealthy ones, then those with the
/// least load.
pub(crate) fn surplus(
    cluster: &Cluster,
    nodes: &[Node],
    chosen: &[NodeId],
    profile_created_at: Timestamp,
    load: &HashMap<NodeId, u64>,
) -> HashSet<NodeId> {
    let mut leaving = HashSet::new();
    for group in &cluster.groups {
        let members: Vec<_> = candidates::workers(nodes, Some(&group.name)).collect();
        let surplus = members.len().saturating_sub(usize::try_from(group.desired).unwrap_or(usize::MAX));
        leaving.extend(choose_victims(&members, surplus, chosen, profile_created_at, load));
    }
    leaving
}

/// Chooses members: first those that are being removed already, then the chosen ones, unhealthy ones, and those with
/// the least load. A member that `load` does not name is idle.
pub(crate) fn choose_victims(
    members: &[&Node],
    count: usize,
    chosen: &[NodeId],
    profile_created_at: Timestamp,
    load: &HashMap<NodeId, u64>,
) -> Vec<NodeId> {
    // A take-over continues with those that an earlier engine began to remove.
    let begun = |node: &&Node| node.status == NodeStatus::Deleting;
    let mut victims: Vec<NodeId> = members.iter().copied().filter(begun).map(|node| node.id).collect();
    victims.extend(chosen.iter().filter(|id| members.iter().any(|node| node.id == **id)));
    let rest = members.iter().map(|node| Candidate::from_node(node, profile_created_at)).collect();
    let least_loaded = |id: NodeId| (load.get(&id).copied().unwrap_or_default(), random_rank(id));
    victims.extend(candidates::choose(rest, members.len(), Criterion::Random, least_loaded));
    let mut unique = HashSet::new();
    victims.into_iter().filter(|id| unique.insert(*id)).take(count).collect()
}

/// Returns a node's rank in a random order, derived from its id so that a take-over chooses the same members.
pub(crate) fn random_rank(id: NodeId) -> u64 {
    let bits = id.as_uuid().as_u128();
    u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use muster_core::node::NodeRole;
    use muster_core::sample;

    use super::*;

    #[test]
    fn idle_members_go_before_busy_ones_and_unhealthy_ones_before_all() {
        let worker = |index| Node {
            role: NodeRole::Worker,
            created_at: Some(Timestamp::default()),
            ..sample::node(index)
        };
        let mut nodes: Vec<Node> = (1..=4).map(worker).collect();
        nodes[3].status = NodeStatus::Error;
        let members: Vec<&Node> = nodes.iter().collect();
        let load = HashMap::from([(nodes[0].id, 2), (nodes[1].id, 1), (nodes[3].id, 9)]);
        let order = choose_victims(&members, 4, &[], Timestamp::default(), &load);
        assert_eq!(order, [3, 2, 1, 0].map(|place| nodes[place].id));
        let chosen = choose_victims(&members, 1, &[nodes[0].id], Timestamp::default(), &load);
        assert_eq!(chosen, [nodes[0].id], "a node that is named goes first");
    }
}
