//! The parts that the benchmarks share: a real server, a minimal client, the floors, and the output of figures.
//!
//! The benchmarks themselves are the programs in `bin/`; `cargo xtask bench NAME` builds and runs one. This crate is no test
//! suite: it asserts nothing but that requests succeed. Begin reading at [`server`] and [`floor`].
//!
//! Each figure is printed beside a floor that was measured in turn with it in the same run: absolute times depend on the
//! machine and its load, and ratios much less so.

pub mod bare;
pub mod bed;
pub mod client;
pub mod copies;
pub mod database;
pub mod figures;
pub mod floor;
pub mod laptop;
pub mod load;
pub mod machine;
pub mod process;
pub mod reads;
pub mod rows;
pub mod run;
pub mod server;
