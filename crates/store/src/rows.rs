//! The mapping of domain types to rows.

pub(crate) mod actions;
pub(crate) mod apps;
pub(crate) mod cluster_objects;
pub(crate) mod clusters;
mod columns;
pub(crate) mod compute_templates;
pub(crate) mod events;
pub(crate) mod image_templates;
pub(crate) mod jobs;
pub(crate) mod nodes;
pub(crate) mod policies;
pub(crate) mod profiles;
pub(crate) mod receivers;
pub(crate) mod tasks;
