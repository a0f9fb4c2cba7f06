//! The shim: the small supervisor under which every local node runs, and how the server speaks to it.
//!
//! ```text
//!  server ── start ──► shim (own session, takes orphans in) ── stage ──► the node's command (own process group)
//!     │                 │  ▲                                             │
//!     │ socket:         │  └── output, by a pipe ◄───────────────────────┘
//!     │ status, adopt,  ▼
//!     └ stop        lock · launch.json · state.json · log, log.1, …
//! ```
//!
//! A shim outlives its server: it goes on with what it was told, and writes down how the node ended. [`Shims`] is
//! the server's side; [`run_if_asked`] is the shim's, which a program's `main` calls before anything else.
//!
//! Every start and stop carries a **generation** (the fence of the action behind it). The highest one seen is kept in
//! the node's folder, and whoever comes with a lower one is refused, whether a shim lives or not. Looking is free.

mod client;
mod folder;
mod launch;
mod lock;
mod memory;
mod program;
mod runtime;
mod state;
mod tail;
mod wire;

pub use client::{CommandError, Found, Outcome, RemoveError, Running, Shims, StartError, StopError};
pub use folder::NodeFolder;
pub use launch::{Launch, LogLimits, NODE_MARKER};
pub use lock::Refused;
pub use memory::OomKills;
pub use program::run_if_asked;
pub use runtime::RuntimeFolder;
pub use state::{Asker, End, Ending, State, Stopped};
pub use wire::{Status, Stop, StopSignal};

pub use crate::sys::ProcessId;
