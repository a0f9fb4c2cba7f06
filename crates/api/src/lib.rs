//! The wire formats of Muster's APIs: each parses a request, calls `muster-service`, and renders the result.
//!
//! The crate contains routes, conversions, errors, authentication and the HTTP server. It contains no rule about
//! clusters: rules are in `muster-service` and `muster-engine`, so that all APIs share them.
//!
//! Begin reading at [`server`] (ports and routers) and `core_api.rs` (the core API). [`clustering`] and [`scaler`] are
//! the other two APIs, [`auth`] authenticates callers, and [`access`] lists the permissions of every method.

pub mod access;
pub mod access_log;
pub mod auth;
mod body;
pub mod clustering;
mod connections;
mod core_api;
pub mod docs;
pub mod error;
pub mod guard;
mod health;
pub mod identity;
mod list_turn;
mod one_port;
pub mod probes;
mod readiness;
mod reauthenticate;
pub mod rest;
pub mod scaler;
pub mod serve;
pub mod server;
mod streams;

pub use core_api::{CoreApi, ServerInfo};
pub use error::ApiError;
pub use serve::{ProtoNumbering, grpc_router, protect, router};
