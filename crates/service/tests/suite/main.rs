//! The use cases over a real engine and a real database.

mod harness;

mod authorization;
mod lists;
mod local_code;
mod names;
mod references;
mod replay;
mod usage;
