//! Finding the object of a request among those that the caller may see, and authorizing what the request does to it.

mod by_identity;
mod by_name;

pub use by_identity::IdentifyError;
pub use by_name::{ClusterRef, FindError};

use muster_core::principal::Owner;

use crate::access::Access;
use crate::authorize::{Denied, Resource};
use crate::error::ServiceError;

/// The object, if the caller may do to it what the operation does; none if the caller may not see it.
fn visible<T>(
    access: &Access,
    what: &str,
    project: &str,
    owner: &Owner,
    object: T,
) -> Result<Option<T>, ServiceError> {
    match access.check(Resource { what, project, owner }) {
        Ok(()) => Ok(Some(object)),
        Err(Denied::Unseen(_)) => Ok(None),
        Err(denied @ Denied::Forbidden(_)) => Err(denied.into()),
    }
}
