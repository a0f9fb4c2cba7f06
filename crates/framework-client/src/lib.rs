//! HTTP requests to the heads of Ray, Dask and Spark clusters.
//!
//! `muster-frameworks` describes requests and reads responses without I/O; [`FrameworkClient`] sends them for the
//! providers.

mod client;
mod error;
mod resolver;

pub use client::FrameworkClient;
pub use error::FrameworkRequestError;
