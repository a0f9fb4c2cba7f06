//! The shim, a small supervisor process for each local node, and the server's side of the protocol with it.
//!
//! ```text
//!  server ── start ──► shim (own session, adopts orphans) ── stage ──► the node's command (own process group)
//!     │                 │  ▲                                           │
//!     │ socket:         │  └── output, by a pipe ◄─────────────────────┘
//!     │ status, adopt,  ▼
//!     └ stop        lock · launch.json · state.json · log, log.1, …
//! ```
//!
//! A shim outlives its server: it keeps the node running and records how the node ended. [`Shims`] is
//! the server's side; [`run_if_invoked`] is the shim's, which a program's `main` calls before anything else.
//!
//! Every start and stop carries a **generation** (the fence of its action). The highest generation is stored in the
//! node's folder, and requests with a lower one are refused, whether a shim runs or not. Reading the state needs no
//! generation.

mod client;
mod folder;
mod launch;
mod lock;
mod log_times;
mod oom_kills;
mod program;
mod runtime;
mod state;
mod tail;
mod wire;

pub use client::{
    NodeProcessState, RemoveError, RunOutcome, RunningNode, ShimRequestError, Shims, StartError, StopError,
};
pub use folder::NodeFolder;
pub use launch::{LaunchSpec, LogLimits, NODE_MARKER};
pub use lock::StaleGeneration;
pub(crate) use log_times::{find_position_since, modified_at};
pub use oom_kills::OomKills;
pub use program::run_if_invoked;
pub use runtime::RuntimeFolder;
pub use state::{ExitCause, NodeExit, ShimState, StopOrigin, StopRecord};
pub use wire::{ShimStatus, StopSignal, StopSpec};

pub use crate::sys::ProcessId;
