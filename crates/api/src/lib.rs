//! Wire formats over the use cases: APIs parse a request, call the service layer, and convert its result.

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
mod reauthenticate;
pub mod rest;
pub mod scaler;
pub mod serve;
pub mod server;
mod streams;

pub use core_api::{CoreApi, ServerInfo};
pub use error::ApiError;
pub use serve::{ProtoNumbering, grpc_router, protect, router};
