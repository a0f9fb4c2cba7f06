//! All rows of Muster, in SQLite or PostgreSQL, and all SQL.
//!
//! Changes are commands of the domain, each atomic; no transaction leaves this crate. The store decides nothing about
//! clusters: it refuses only commands that the stored rows contradict, such as one with an outdated fence.
//!
//! Begin reading at `store.rs` ([`Store`]), then [`commands`] (the writes, one file each) and [`reads`]. `writer.rs` groups
//! commands into commits of SQLite; `migrate.rs` has the schema. `docs/operations.md` is for administrators.

mod bulk;
mod change_order;
pub mod commands;
mod connection;
mod error;
mod execute;
mod keyset;
mod listen;
mod metrics;
mod migrate;
mod notice;
mod notifier;
mod paging;

mod postgres;
mod readers;
pub mod reads;
mod rows;
mod shared;
mod sqlite;
mod store;
mod transaction;
mod value;
mod write_connection;
mod writer;

pub use connection::Dialect;
pub use error::StoreError;
pub use keyset::{Cursor, Direction, Page};
pub use metrics::Metrics;
pub use migrate::SCHEMA_VERSION;
pub use shared::Listener;
pub use store::Store;
pub use transaction::Touched;
