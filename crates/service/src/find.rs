//! Finds the object of a request among those that the caller may see, and authorizes the operation on it.

mod by_identity;
mod by_name;

pub use by_identity::IdentifyError;
pub use by_name::{ClusterRef, FindError};

use crate::access::Access;
use crate::authorize::{Denied, Resource};
use crate::error::ServiceError;

/// Returns true if the caller may perform the operation on an object, and false if the object does not exist for the
/// caller; the error refuses a caller who may see the object only.
pub(crate) fn is_permitted(access: &Access, on: Resource<'_>) -> Result<bool, ServiceError> {
    match access.check(on) {
        Ok(()) => Ok(true),
        Err(Denied::Unseen(_)) => Ok(false),
        Err(denied @ Denied::Forbidden(_)) => Err(denied.into()),
    }
}
