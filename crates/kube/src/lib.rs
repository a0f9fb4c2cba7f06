//! The provider `kubernetes`: clusters as objects of the operators that people already run.
//!
//! What is there is followed by watches and kept in memory, as little of it as anybody here asks for; observing a
//! cluster writes nothing, and costs the API server nothing but one cached read for a pod that a watch stopped listing
//! without having seen it being deleted. Everything that is written carries the fence of the action behind it, and is
//! written only if nobody else wrote in between.

mod apps;
mod connect;
mod content;
mod describe;
mod details;
mod facts;
mod fences;
mod follow;
mod happenings;
mod images;
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
mod stale;
mod stored_configs;
mod templates;
mod tokens;
mod which;
mod write;

pub use connect::{CannotConnect, Options, client};
pub use images::ImageOptions;
pub use kube::Client;
pub use provider::Kubernetes;
pub use tokens::TokenReviews;
pub use which::Remembered;
