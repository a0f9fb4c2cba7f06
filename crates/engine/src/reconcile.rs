//! Bringing a cluster to its intent: observe, plan, record, apply, wait, give up.

pub(crate) mod delegated;
pub(crate) mod individual;
