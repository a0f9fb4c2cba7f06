//! A provider's world and engines in separate processes, for tests that kill, stop and overtake engines.
//!
//! The program `world` simulates the nodes of clusters, refuses calls with an outdated fence, logs every call, and
//! fails on command. The program `engine` is a Muster engine over it. Both end with the test that started them.

mod ending;
pub mod engine;
mod lines;
mod program;
mod provider;
pub mod server;
mod state;
mod wire;

mod handle;
mod replica;

pub use handle::World;
pub use program::program;
pub use provider::{WORLD_CLUSTER, WORLD_NODE, WorldProvider};
pub use replica::{Pace, Replica};
pub use wire::{Control, Entry, FalseObservation, Outcome, Verb};
