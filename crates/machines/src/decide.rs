//! Decisions: pure functions of what was observed.

pub mod certificate;
pub(crate) mod covers;
pub(crate) mod group;
pub mod inject;
pub mod ledger;
pub mod machine_pass;
pub mod node_health;
pub mod nodes;
mod patch;
pub mod pod_requests;
pub mod registration;
pub mod reservations;
pub mod slot_pod;
pub mod takeover;
pub mod update;
pub mod validate;
