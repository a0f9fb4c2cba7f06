//! Muster's wire: messages, gRPC services and clients, their JSON, and REST made from the same `.proto` files.
//!
//! Nothing here knows a web framework: [`rest`] has for each method the ways to it over HTTP, and a function that
//! takes a JSON object and gives JSON.

pub mod bind;
pub mod descriptor;
mod explain;
pub mod names;
pub mod query;
pub mod rest;
pub mod rpc;
pub mod v1;
pub mod v1alpha2;
pub mod wkt;

pub use descriptor::FILE_DESCRIPTOR_SET;
