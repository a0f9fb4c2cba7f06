//! Muster's types and pure rules.
//!
//! Nothing here does I/O, reads a clock or is async: the same inputs give the same answer.

pub mod ids;
pub mod quantity;
