//! Background tasks that watch clusters and submit actions; none of them changes the world by itself, except that what
//! has no row is removed.

pub(crate) mod apps;
mod change_feed;
pub(crate) mod compute_templates;
pub(crate) mod expiry;
pub(crate) mod health;
pub(crate) mod leftover_nodes;
pub(crate) mod observer;
pub(crate) mod retention;
