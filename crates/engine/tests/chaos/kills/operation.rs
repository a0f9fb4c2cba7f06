//! The operations that engines are killed in.

use muster_testkit::world::{WORLD_CLUSTER, WORLD_NODE};

use crate::facts::Expected;

/// The operation that an engine executes when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KilledOperation {
    Create,
    Grow,
    ScaleOut,
    Shrink,
    ScaleIn,
    Delete,
    Heal,
    /// A lost node is recovered on request.
    Recover,
    Check,
    Operate,
    /// Named members are removed and deleted.
    Remove,
    /// Nodes that are in no cluster become members.
    Add,
    /// Nodes that are in no cluster replace members.
    Replace,
    /// Members are updated to another recipe, batch by batch.
    Roll,
    /// Members are updated to another recipe together with their head.
    RollWithHead,
    Attach,
    Detach,
    Node(KilledNodeOperation, Place),
}

/// An operation on a single node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KilledNodeOperation {
    Create,
    Delete,
    Rename,
    /// The node is updated to another recipe.
    Remake,
    /// The node is recreated.
    Recover,
    Check,
}

/// The membership of that node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a cluster of plain nodes.
    Member,
    /// At the head of a cluster.
    Head,
    /// In no cluster.
    Alone,
}

impl KilledOperation {
    /// The number of workers before, and the expected result; single nodes have their own expectations.
    pub(super) fn sizes(self) -> (u32, Expected) {
        let (before, workers, made, again) = match self {
            Self::Create => (0, Some(3), 4, 0),
            Self::Grow | Self::ScaleOut => (1, Some(4), 5, 0),
            Self::Shrink | Self::ScaleIn | Self::Remove => (4, Some(1), 5, 0),
            Self::Delete => (3, None, 4, 0),
            Self::Heal => (2, Some(2), 3, 1),
            Self::Recover => (3, Some(3), 3, 1),
            Self::Check => (2, Some(2), 3, 0),
            Self::Operate | Self::Replace => (3, Some(3), 3, 0),
            // The added nodes were created in another cluster, which counts them.
            Self::Add => (1, Some(4), 1, 0),
            Self::Roll => (3, Some(3), 3, 3),
            Self::RollWithHead => (2, Some(2), 3, 3),
            Self::Attach | Self::Detach => (1, Some(1), 1, 0),
            Self::Node(..) => unreachable!("a node is no cluster"),
        };
        (before, Expected { workers, made, again })
    }

    /// The type of the cluster.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Add
            | Self::Replace
            | Self::Recover
            | Self::Operate
            | Self::Roll
            | Self::Attach
            | Self::Detach => WORLD_NODE,
            _ => WORLD_CLUSTER,
        }
    }
}

impl KilledNodeOperation {
    /// The expected result in a cluster of two workers, or for a node in no cluster.
    pub(super) const fn expected(self, place: Place) -> Expected {
        let remade = matches!(self, Self::Remake | Self::Recover);
        let (workers, made, again) = match (place, self) {
            (Place::Alone, Self::Delete) => (None, 1, 0),
            (Place::Alone, _) => (Some(1), 1, remade as usize),
            (Place::Member, Self::Create) => (Some(3), 3, 0),
            (Place::Member, Self::Delete) => (Some(1), 2, 0),
            (Place::Member, _) => (Some(2), 2, remade as usize),
            // With a new head all workers are new.
            (Place::Head, _) => (Some(2), 3, 3 * remade as usize),
        };
        Expected { workers, made, again }
    }
}
