//! The guarantees of the store, tested on SQLite and PostgreSQL.

mod accept;
mod apps;
mod cancelled;
mod change_order;
mod changes;
mod children;
mod claim;
mod compute_templates;
mod harness;
mod identify;
mod jobs;
mod limits;
mod lists;
mod mirror;
mod names;
mod newer;
mod notices;
mod observations;
mod policies;
mod purge;
mod races;
mod raw;
mod rewrite;
mod tasks;
mod usage;
mod versions;
