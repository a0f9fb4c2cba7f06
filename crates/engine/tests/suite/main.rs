//! What the engine promises, on SQLite and PostgreSQL alike.

mod abandon;
mod fixture;
mod healing;
mod life;
mod policies;
mod signals;
mod takeover;
