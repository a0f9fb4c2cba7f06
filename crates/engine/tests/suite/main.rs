//! What the engine promises, on SQLite and PostgreSQL alike.

mod fixture;
mod healing;
mod life;
mod signals;
mod takeover;
