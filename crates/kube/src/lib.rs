//! The provider `kubernetes`: clusters as objects of the operators that people already run.
//!
//! What is there is followed by watches and kept in memory, as little of it as anybody here asks for; looking at a
//! cluster costs the API server nothing. Everything that is written carries the fence of the action behind it, and is
//! written only if nobody else wrote in between.

mod connect;
mod describe;
mod details;
mod facts;
mod fences;
mod follow;
mod happenings;
mod installed;
mod labels;
mod logs;
mod marks;
mod namespaces;
mod observe;
mod operated;
mod plain;
mod pods;
mod provider;
mod refusal;
mod sites;
mod tokens;
mod which;
mod write;

pub use connect::{CannotConnect, Options};
pub use provider::Kubernetes;
pub use tokens::TokenReviews;
pub use which::Remembered;
