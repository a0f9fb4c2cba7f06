//! What the engine promises, on SQLite and PostgreSQL alike.

mod abandon;
mod children;
mod delegated;
mod harness;
mod healing;
mod health;
mod hooks;
mod interrupts;
mod life;
mod limits;
mod membership;
mod nodes;
mod placement;
mod policies;
mod recipes;
mod recovery;
mod retries;
mod rolling;
mod room;
mod saying;
mod scaling;
mod signals;
mod takeover;
mod versions;
