//! What the engine promises, on SQLite and PostgreSQL alike.

mod abandon;
mod capacity;
mod children;
mod clocks;
mod delegated;
mod expiry;
mod harness;
mod healing;
mod health;
mod hooks;
mod interrupts;
mod lifecycle;
mod membership;
mod nodes;
mod placement;
mod policies;
mod recipes;
mod recovery;
mod retries;
mod rolling;
mod scaling;
mod scripted_policy;
mod signals;
mod slots;
mod takeover;
mod versions;
