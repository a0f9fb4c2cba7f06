//! What the store promises, on SQLite and PostgreSQL alike.

mod accept;
mod cancelled;
mod claim;
mod fixture;
mod lists;
mod races;
