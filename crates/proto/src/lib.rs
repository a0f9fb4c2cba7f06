//! The wire types of the core API: messages, gRPC services and clients, JSON and REST routes, from the `.proto` files.
//!
//! The crate contains no handler and no web framework: `muster-api` implements the services and serves the routes.
//!
//! Begin reading at `proto/muster/v1alpha2/` (the messages) and [`rest`]: the HTTP routes of each method, each with a
//! function from a JSON object to JSON. [`bind`] and [`query`] make that object from path, query and body.

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
