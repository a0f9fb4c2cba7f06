//! Decisions: pure functions of what was observed.

pub mod inject;
pub mod ledger;
mod patch;
pub mod pod_requests;
pub mod slot_pod;
