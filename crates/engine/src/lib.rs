//! Durable actions over one store: everything that happens over time, and the ports to the world.
//!
//! The engine knows no provider and no API. The service layer submits changes to it; providers implement its ports.
//!
//! The folders are layers, listed here from the ground up; imports point down only (`tests/layers.rs` checks that).
//! Start reading at `admission/submit.rs` (how a change becomes an action) or `scheduler/runner.rs` (how it is run).

// Ground: no behaviour over time.
mod config;
mod events;
mod ids;
mod metrics;
mod notify;

pub mod ports;

pub mod action_data;

// Decisions: what a cluster will look like, and what policies say about it.
pub mod intent;

pub mod policy;

// What every task shares.
mod lease;
mod liveness;

mod context;

mod supervise;

// One action.
mod run;

mod reconcile;

mod actions;

// Many actions.
pub mod admission;

mod queries;
mod scheduler;
mod wait;
mod watchers;

mod start;

pub use admission::{
    Caller, ChangeRequest, Conflict, NewClusterUser, NewNode, NodeChangeRequest, Recipe, SubmitError,
};
pub use config::{Config, LocalCode};
pub use context::Engine;
pub use ids::new_id;
pub use metrics::Metrics;
pub use queries::{QueryError, UpdatePreview};
pub use start::Parts;
