//! Durable actions over one store: all behaviour over time, and the ports to the world.
//!
//! The engine knows no provider and no door. Doors call it; providers implement its ports.

mod abandon;
pub mod adopt;
mod again;
pub mod ask;
pub mod clock;
mod config;
mod delegated;
mod dispatcher;
mod ears;
mod engine;
mod events;
pub mod frameworks;
mod fresh;
mod handlers;
mod hands;
pub mod health;
pub mod hooks;
mod hub;
pub mod identity;
mod inquire;
mod janitor;
mod limits;
mod members;
mod metrics;
mod naming;
mod observer;
mod orphan;
mod placements;
mod plan;
pub mod policy;
pub mod provider;
mod room;
mod runner;
mod submit;
mod told;
mod unfinished;
mod work;

pub use config::Config;
pub use engine::{Engine, Parts};
pub use fresh::new_id;
pub use inquire::{InquiryError, Lines};
pub use metrics::Metrics;
pub use submit::{Caller, Change, Gate, NewNode, NodeChange, Recipe, SubmitError};
