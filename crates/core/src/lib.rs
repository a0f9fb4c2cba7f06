//! The types of the domain and the rules that need nothing else: ids, quantities, clusters, nodes, actions, policies.
//!
//! Nothing in this crate does I/O, reads a clock or is async: the same inputs give the same result. `muster-engine`
//! decides what a cluster looks like after a change, and `muster-service` decides what a caller may do.
//!
//! Begin reading at [`cluster`] and [`node`] (intent and observation), [`change`] (what a caller can request) and
//! [`action`] (the recorded execution of a change).

pub mod action;
pub mod address;
pub mod app;
pub mod backoff;
pub mod candidates;
pub mod capacity;
pub mod change;
pub mod cluster;
pub mod compute_template;
pub mod config_set;
pub mod dns_label;
pub mod domino;
pub mod ephemeral;
pub mod event;
pub mod ids;
pub mod image_template;
pub mod job;
pub mod limits;
pub mod machine;
pub mod membership;
pub mod node;
mod object_name;
pub mod own_keys;
pub mod placement;
pub mod policy;
pub mod principal;
pub mod profile;
pub mod profile_types;
pub mod projects;
pub mod quantity;
pub mod receiver;
pub mod recipe;
pub mod resize;
pub mod restart;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod shape;
pub mod software;
pub mod spec;
pub mod status;
pub mod string_enum;
pub mod task;
pub mod tier;
pub mod time;
pub mod unknown_fields;
pub mod usage;
