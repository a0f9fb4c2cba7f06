//! The use cases over a real engine and a real database.

mod harness;

mod apps;
mod authorization;
mod lists;
mod local_code;
mod machines;
mod names;
mod owned;
mod profiles;
mod references;
mod replay;
mod usage;
