//! What the store promises, on SQLite and PostgreSQL alike.

mod accept;
mod claim;
mod fixture;
