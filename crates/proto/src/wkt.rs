//! `google.protobuf`'s well-known types, with the JSON that our contracts ask for.
//!
//! Those of the common crates write times with `+00:00` and whole numbers as `1.0`.

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
