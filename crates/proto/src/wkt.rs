//! The well-known types of `google.protobuf`, with the JSON that existing clients of the APIs expect.
//!
//! The types of the usual crates do not fit: they write times with `+00:00`, and whole numbers as `1.0`.

mod any;
mod duration;
mod field_mask;
mod structure;
mod timestamp;

pub use any::{Any, Empty};
pub use duration::Duration;
pub use field_mask::{FieldMask, snake_case};
pub use structure::{Kind, ListValue, Struct, Value};
pub use timestamp::Timestamp;

#[cfg(test)]
mod tests;
