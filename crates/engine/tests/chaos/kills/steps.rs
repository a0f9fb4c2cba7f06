//! The calls at which engines are killed.

use muster_testkit::world::Verb::{self, Create, Delete, Observe, Operate, Start, Stop};

use super::operation::Place::{Alone, Head, Member};
use super::operation::{KilledNodeOperation, KilledOperation};

/// Calls of a verb at which an engine is killed, by the number of earlier calls of that verb in the operation: each
/// call is between two records. A number that is listed twice stands for two kills: one whose call arrives, one whose
/// call is lost.
pub(super) type KillPoint = (KilledOperation, Verb, &'static [u32]);

pub(super) const OF_CLUSTERS: &[KillPoint] = &[
    (KilledOperation::Create, Create, &[0]),
    (KilledOperation::Create, Observe, &[0, 1, 2]),
    (KilledOperation::Create, Start, &[0, 1, 3]),
    (KilledOperation::Grow, Observe, &[0, 1]),
    (KilledOperation::Grow, Start, &[0, 2]),
    (KilledOperation::ScaleOut, Start, &[0, 2]),
    (KilledOperation::Shrink, Stop, &[0, 1]),
    (KilledOperation::Shrink, Observe, &[1]),
    (KilledOperation::ScaleIn, Stop, &[0, 2]),
    (KilledOperation::ScaleIn, Observe, &[1]),
    (KilledOperation::Delete, Stop, &[0, 3]),
    (KilledOperation::Delete, Delete, &[0]),
    (KilledOperation::Heal, Observe, &[0, 1, 2]),
    (KilledOperation::Heal, Start, &[0]),
    (KilledOperation::Recover, Observe, &[0]),
    (KilledOperation::Recover, Start, &[0, 0]),
    (KilledOperation::Check, Observe, &[0]),
    (KilledOperation::Operate, Operate, &[0, 2]),
    (KilledOperation::Remove, Stop, &[0, 2]),
    (KilledOperation::Remove, Observe, &[1]),
    (KilledOperation::Roll, Stop, &[0, 0, 2]),
    (KilledOperation::Roll, Observe, &[2, 5]),
    (KilledOperation::Roll, Start, &[0, 0, 1]),
    (KilledOperation::RollWithHead, Stop, &[0, 0]),
    (KilledOperation::RollWithHead, Observe, &[1]),
    (KilledOperation::RollWithHead, Start, &[0, 0, 1]),
];

pub(super) const OF_NODES: &[KillPoint] = &[
    (KilledOperation::Node(KilledNodeOperation::Create, Alone), Observe, &[0]),
    (KilledOperation::Node(KilledNodeOperation::Create, Alone), Start, &[0, 0]),
    (KilledOperation::Node(KilledNodeOperation::Create, Member), Observe, &[0, 1]),
    (KilledOperation::Node(KilledNodeOperation::Create, Member), Start, &[0, 0]),
    (KilledOperation::Node(KilledNodeOperation::Delete, Alone), Stop, &[0, 0]),
    (KilledOperation::Node(KilledNodeOperation::Delete, Member), Stop, &[0, 0]),
    (KilledOperation::Node(KilledNodeOperation::Delete, Member), Observe, &[1]),
    (KilledOperation::Node(KilledNodeOperation::Remake, Alone), Stop, &[0, 0]),
    (KilledOperation::Node(KilledNodeOperation::Remake, Member), Stop, &[0]),
    (KilledOperation::Node(KilledNodeOperation::Remake, Member), Observe, &[2]),
    (KilledOperation::Node(KilledNodeOperation::Remake, Member), Start, &[0, 0]),
    (KilledOperation::Node(KilledNodeOperation::Recover, Alone), Start, &[0, 0]),
    (KilledOperation::Node(KilledNodeOperation::Recover, Member), Observe, &[1, 3]),
    (KilledOperation::Node(KilledNodeOperation::Recover, Member), Stop, &[0, 0]),
    (KilledOperation::Node(KilledNodeOperation::Recover, Head), Stop, &[0, 0]),
    (KilledOperation::Node(KilledNodeOperation::Recover, Head), Start, &[0, 2]),
    (KilledOperation::Node(KilledNodeOperation::Check, Alone), Observe, &[0]),
    (KilledOperation::Node(KilledNodeOperation::Check, Member), Observe, &[0]),
];

/// Operations without a call that could be held: they are a few commits, and take as many milliseconds.
pub(super) const BRIEF: &[KilledOperation] = &[
    KilledOperation::Add,
    KilledOperation::Replace,
    KilledOperation::Attach,
    KilledOperation::Detach,
    KilledOperation::Node(KilledNodeOperation::Rename, Alone),
    KilledOperation::Node(KilledNodeOperation::Rename, Member),
];

/// Operations that take longer.
pub(super) const OPERATIONS: &[KilledOperation] = &[
    KilledOperation::Create,
    KilledOperation::Grow,
    KilledOperation::ScaleOut,
    KilledOperation::Shrink,
    KilledOperation::ScaleIn,
    KilledOperation::Delete,
    KilledOperation::Heal,
    KilledOperation::Recover,
    KilledOperation::Check,
    KilledOperation::Operate,
    KilledOperation::Remove,
    KilledOperation::Roll,
    KilledOperation::RollWithHead,
    KilledOperation::Node(KilledNodeOperation::Create, Alone),
    KilledOperation::Node(KilledNodeOperation::Create, Member),
    KilledOperation::Node(KilledNodeOperation::Delete, Alone),
    KilledOperation::Node(KilledNodeOperation::Delete, Member),
    KilledOperation::Node(KilledNodeOperation::Remake, Alone),
    KilledOperation::Node(KilledNodeOperation::Remake, Member),
    KilledOperation::Node(KilledNodeOperation::Recover, Alone),
    KilledOperation::Node(KilledNodeOperation::Recover, Member),
    KilledOperation::Node(KilledNodeOperation::Recover, Head),
    KilledOperation::Node(KilledNodeOperation::Check, Alone),
    KilledOperation::Node(KilledNodeOperation::Check, Member),
];
