//! Muster's types and pure rules.
//!
//! Nothing here does I/O, reads a clock or is async: the same inputs give the same answer.

pub mod action;
pub mod app;
pub mod backoff;
pub mod candidates;
pub mod capacity;
pub mod change;
pub mod cluster;
pub mod compute_template;
pub mod config_set;
pub mod domino;
pub mod ephemeral;
pub mod event;
pub mod ids;
pub mod image_template;
pub mod limits;
pub mod membership;
pub mod node;
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
pub mod spec;
pub mod status;
pub mod string_enum;
pub mod task;
pub mod tier;
pub mod time;
pub mod unknown_fields;
