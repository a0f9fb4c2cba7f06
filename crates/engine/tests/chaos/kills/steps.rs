//! The calls at which engines are killed.

use muster_testkit::world::Verb::{self, Create, Delete, Observe, Operate, Start, Stop};

use super::deed::Place::{Alone, Head, Member};
use super::deed::{Deed, NodeDeed};

/// Calls of a verb at which an engine is killed, by the number of earlier calls of that verb in the operation: each
/// call is between two records. A number that is listed twice stands for two kills: one whose call arrives, one whose
/// call is lost.
pub(super) type Step = (Deed, Verb, &'static [u32]);

pub(super) const OF_CLUSTERS: &[Step] = &[
    (Deed::Create, Create, &[0]),
    (Deed::Create, Observe, &[0, 1, 2]),
    (Deed::Create, Start, &[0, 1, 3]),
    (Deed::Grow, Observe, &[0, 1]),
    (Deed::Grow, Start, &[0, 2]),
    (Deed::ScaleOut, Start, &[0, 2]),
    (Deed::Shrink, Stop, &[0, 1]),
    (Deed::Shrink, Observe, &[1]),
    (Deed::ScaleIn, Stop, &[0, 2]),
    (Deed::ScaleIn, Observe, &[1]),
    (Deed::Delete, Stop, &[0, 3]),
    (Deed::Delete, Delete, &[0]),
    (Deed::Heal, Observe, &[0, 1, 2]),
    (Deed::Heal, Start, &[0]),
    (Deed::Recover, Observe, &[0]),
    (Deed::Recover, Start, &[0, 0]),
    (Deed::Check, Observe, &[0]),
    (Deed::Operate, Operate, &[0, 2]),
    (Deed::Remove, Stop, &[0, 2]),
    (Deed::Remove, Observe, &[1]),
    (Deed::Roll, Stop, &[0, 0, 2]),
    (Deed::Roll, Observe, &[2, 5]),
    (Deed::Roll, Start, &[0, 0, 1]),
    (Deed::RollWithHead, Stop, &[0, 0]),
    (Deed::RollWithHead, Observe, &[1]),
    (Deed::RollWithHead, Start, &[0, 0, 1]),
];

pub(super) const OF_NODES: &[Step] = &[
    (Deed::Node(NodeDeed::Create, Alone), Observe, &[0]),
    (Deed::Node(NodeDeed::Create, Alone), Start, &[0, 0]),
    (Deed::Node(NodeDeed::Create, Member), Observe, &[0, 1]),
    (Deed::Node(NodeDeed::Create, Member), Start, &[0, 0]),
    (Deed::Node(NodeDeed::Delete, Alone), Stop, &[0, 0]),
    (Deed::Node(NodeDeed::Delete, Member), Stop, &[0, 0]),
    (Deed::Node(NodeDeed::Delete, Member), Observe, &[1]),
    (Deed::Node(NodeDeed::Remake, Alone), Stop, &[0, 0]),
    (Deed::Node(NodeDeed::Remake, Member), Stop, &[0]),
    (Deed::Node(NodeDeed::Remake, Member), Observe, &[2]),
    (Deed::Node(NodeDeed::Remake, Member), Start, &[0, 0]),
    (Deed::Node(NodeDeed::Recover, Alone), Start, &[0, 0]),
    (Deed::Node(NodeDeed::Recover, Member), Observe, &[1, 3]),
    (Deed::Node(NodeDeed::Recover, Member), Stop, &[0, 0]),
    (Deed::Node(NodeDeed::Recover, Head), Stop, &[0, 0]),
    (Deed::Node(NodeDeed::Recover, Head), Start, &[0, 2]),
    (Deed::Node(NodeDeed::Check, Alone), Observe, &[0]),
    (Deed::Node(NodeDeed::Check, Member), Observe, &[0]),
];

/// Operations without a call that could be held: they are a few commits, and take as many milliseconds.
pub(super) const BRIEF: &[Deed] = &[
    Deed::Add,
    Deed::Replace,
    Deed::Attach,
    Deed::Detach,
    Deed::Node(NodeDeed::Rename, Alone),
    Deed::Node(NodeDeed::Rename, Member),
];

/// Operations that take longer.
pub(super) const DEEDS: &[Deed] = &[
    Deed::Create,
    Deed::Grow,
    Deed::ScaleOut,
    Deed::Shrink,
    Deed::ScaleIn,
    Deed::Delete,
    Deed::Heal,
    Deed::Recover,
    Deed::Check,
    Deed::Operate,
    Deed::Remove,
    Deed::Roll,
    Deed::RollWithHead,
    Deed::Node(NodeDeed::Create, Alone),
    Deed::Node(NodeDeed::Create, Member),
    Deed::Node(NodeDeed::Delete, Alone),
    Deed::Node(NodeDeed::Delete, Member),
    Deed::Node(NodeDeed::Remake, Alone),
    Deed::Node(NodeDeed::Remake, Member),
    Deed::Node(NodeDeed::Recover, Alone),
    Deed::Node(NodeDeed::Recover, Member),
    Deed::Node(NodeDeed::Recover, Head),
    Deed::Node(NodeDeed::Check, Alone),
    Deed::Node(NodeDeed::Check, Member),
];
