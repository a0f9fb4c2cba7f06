//! Background tasks that observe clusters and submit actions. They write to a provider only to remove nodes without a
//! row, and to mark apps with the clusters that they use.

pub(crate) mod apps;
mod change_feed;
pub(crate) mod compute_templates;
pub(crate) mod expiry;
pub(crate) mod health;
pub(crate) mod leftover_nodes;
pub(crate) mod observer;
pub(crate) mod retention;
