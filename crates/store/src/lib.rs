//! All rows of Muster, in SQLite or PostgreSQL.
//!
//! Changes are commands of the domain, each atomic; no transaction leaves this crate.

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
mod pen;
mod postgres;
mod readers;
pub mod reads;
mod rows;
mod shared;
mod sqlite;
mod store;
mod transaction;
mod value;
mod writer;

pub use connection::Dialect;
pub use error::StoreError;
pub use keyset::{Cursor, Direction, Page};
pub use metrics::Metrics;
pub use migrate::SCHEMA_VERSION;
pub use shared::Listener;
pub use store::Store;
pub use transaction::Touched;
