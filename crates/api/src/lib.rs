//! Muster's front doors: they parse, authorize, call and convert; what happens is the engine's.

pub mod access;
pub mod auth;
pub mod clustering;
mod core_api;
pub mod error;
pub mod guard;
mod health;
pub mod identity;
pub mod operations;
pub mod requests;
pub mod rest;
mod seal;
pub mod serve;
pub mod server;

pub use core_api::{CoreApi, ServerInfo};
pub use error::ApiError;
pub use serve::{grpc_router, protect, router};
