//! The process that owns the real programs of a test run.
//!
//! The testbed starts each part once, at its own start or at the first request, serves a socket in its folder, and
//! leaves no process, socket or folder behind, however it ends.

mod args;
mod bed;
mod component;
mod folder;
mod group;
mod inventory;
mod kubernetes;
mod operators;
mod output;
mod ports;
mod postgres;
mod program;
mod server;
mod sweep;

pub use self::args::Args;
pub(crate) use self::folder::SOCKET;
