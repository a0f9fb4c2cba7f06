//! The ports: traits for what the engine needs from outside; other crates implement them.

pub mod answer_cache;
pub mod clock;
pub mod domino;
pub mod frameworks;
pub mod identity;
pub mod images;
pub(crate) mod instrumented;
pub mod jobs;
pub mod keyed_lock;
pub mod machines;
pub mod node_meter;
pub mod probe;
pub mod provider;
pub mod webhook;
