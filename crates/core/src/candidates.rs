//! The choice of workers to remove when a cluster shrinks.

use serde::{Deserialize, Serialize};

use crate::ids::NodeId;
use crate::node::{Node, NodeRole};
use crate::string_enum::string_enum;
use crate::time::Timestamp;

string_enum! {
    /// The order in which workers of equal health are removed.
    Criterion, "deletion criterion" {
        /// The oldest first.
        OldestFirst = "OLDEST_FIRST",
        /// Those with the oldest profile first.
        OldestProfileFirst = "OLDEST_PROFILE_FIRST",
        /// The youngest first.
        YoungestFirst = "YOUNGEST_FIRST",
        /// In random order.
        Random = "RANDOM",
    }
}

/// A worker that may be removed, with the properties that the choice depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The node.
    pub id: NodeId,
    /// True if the node is in ERROR or WARNING, or tainted.
    pub unhealthy: bool,
    /// The time when the node first worked; none if it never did.
    pub created_at: Option<Timestamp>,
    /// The time when its profile was created.
    pub profile_created_at: Timestamp,
}

impl Candidate {
    /// The candidate of a node's row.
    pub fn from_node(node: &Node, profile_created_at: Timestamp) -> Self {
        Self { id: node.id, unhealthy: node.is_unhealthy(), created_at: node.created_at, profile_created_at }
    }
}

/// Chooses `count` workers: unhealthy ones, then those that never worked, then by the criterion.
///
/// `tie_break` breaks ties: the smallest goes first, and the same values give the same choice.
pub fn choose<T: Ord>(
    mut candidates: Vec<Candidate>,
    count: usize,
    criterion: Criterion,
    tie_break: impl Fn(NodeId) -> T,
) -> Vec<NodeId> {
    candidates.sort_by_cached_key(|candidate| {
        let group = match candidate {
            Candidate { unhealthy: true, .. } => 0,
            Candidate { created_at: None, .. } => 1,
            _ => 2,
        };
        let age = candidate.created_at.map_or(0, Timestamp::micros);
        let rank = match criterion {
            Criterion::OldestFirst => age,
            Criterion::OldestProfileFirst => candidate.profile_created_at.micros(),
            Criterion::YoungestFirst => age.saturating_neg(),
            Criterion::Random => 0,
        };
        (group, rank, tie_break(candidate.id))
    });
    candidates.into_iter().take(count).map(|candidate| candidate.id).collect()
}

/// The workers of a group, or of all groups.
pub fn workers<'n>(nodes: &'n [Node], group: Option<&str>) -> impl Iterator<Item = &'n Node> {
    let group = group.map(str::to_owned);
    nodes.iter().filter(move |node| {
        node.role == NodeRole::Worker && group.as_ref().is_none_or(|group| node.group.as_ref() == Some(group))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use uuid::Uuid;

    use super::*;

    fn candidate(number: u128, unhealthy: bool, created_at: Option<i64>, profile: i64) -> Candidate {
        Candidate {
            id: NodeId::from_uuid(Uuid::from_u128(number)),
            unhealthy,
            created_at: created_at.map(Timestamp::from_micros),
            profile_created_at: Timestamp::from_micros(profile),
        }
    }

    fn numbers(ids: Vec<NodeId>) -> Vec<u128> {
        ids.into_iter().map(|id| id.as_uuid().as_u128()).collect()
    }

    fn four() -> Vec<Candidate> {
        vec![
            candidate(1, false, Some(10), 9),
            candidate(2, false, Some(30), 1),
            candidate(3, false, Some(20), 5),
            candidate(4, false, Some(40), 7),
        ]
    }

    #[rstest]
    #[case(Criterion::OldestFirst, &[1, 3])]
    #[case(Criterion::YoungestFirst, &[4, 2])]
    #[case(Criterion::OldestProfileFirst, &[2, 3])]
    fn healthy_workers_go_by_the_criterion(#[case] criterion: Criterion, #[case] chosen: &[u128]) {
        assert_eq!(numbers(choose(four(), 2, criterion, |_| 0)), chosen);
    }

    #[test]
    fn unhealthy_workers_go_first_then_those_that_never_worked() {
        let mut candidates = four();
        candidates.push(candidate(5, false, None, 9));
        candidates.push(candidate(6, true, Some(99), 9));
        assert_eq!(numbers(choose(candidates, 3, Criterion::OldestFirst, |_| 0)), [6, 5, 1]);
    }

    #[test]
    fn at_random_the_lot_decides() {
        let tie_break = |id: NodeId| u64::try_from(10 - id.as_uuid().as_u128()).unwrap();
        assert_eq!(numbers(choose(four(), 2, Criterion::Random, tie_break)), [4, 3]);
    }

    #[test]
    fn no_more_go_than_there_are() {
        assert_eq!(choose(four(), 9, Criterion::OldestFirst, |_| 0).len(), 4);
    }
}
