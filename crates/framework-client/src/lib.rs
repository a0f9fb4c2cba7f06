//! HTTP requests to the heads of Ray, Dask and Spark clusters.
//!
//! `muster-frameworks` renders requests and parses responses without I/O; [`FrameworkClient`] sends them for the
//! providers. It knows no framework, retries nothing and caches nothing. Begin reading at [`FrameworkClient::fetch`].

mod client;
mod error;
mod resolver;

pub use client::FrameworkClient;
pub use error::FrameworkRequestError;
