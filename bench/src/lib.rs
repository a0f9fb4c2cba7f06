//! What the benchmarks share: a real server, a thin client, the raw floor, and how figures are told.
//!
//! Every figure stands beside a floor that was measured in the same run, in turn with it: machines differ and are
//! busy, ratios less so.

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
