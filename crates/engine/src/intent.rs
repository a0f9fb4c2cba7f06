//! What a cluster will look like after a change. Pure: the same inputs give the same answer.

pub(crate) mod naming;
pub(crate) mod orphan;
pub(crate) mod placements;
pub(crate) mod scale;
