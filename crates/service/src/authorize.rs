//! The authorization of all operations, in one function.

use muster_core::principal::{Owner, Principal, Role};

use crate::access::Verb;

#[cfg(test)]
mod tests;

/// The object of an authorization decision.
#[derive(Debug, Clone, Copy)]
pub struct Resource<'a> {
    /// The object in the message: `cluster 'fred'`.
    pub what: &'a str,
    /// The project that it belongs to.
    pub project: &'a str,
    /// The user who owns the object.
    pub owner: &'a Owner,
}

/// The callers, in addition to admins, who may access an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessRule {
    /// The members of its project; readers may only read it.
    Members,
    /// The owner, whatever the project; other callers neither see nor change the object.
    OwnerOnly,
}

/// A refusal of [`authorize`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The caller may not see the object, so for this caller it does not exist.
    #[error("{0} not found")]
    Unseen(String),
    /// The caller may see the object, but may not perform this operation.
    #[error("{0}")]
    Forbidden(String),
}

/// Decides if a principal may perform an operation on an object. Admins may do everything. Members of a project see
/// and change its objects, and readers see them; for all other callers the object does not exist. With
/// [`AccessRule::OwnerOnly`], all callers except the owner are refused.
pub fn authorize(
    principal: &Principal,
    verb: Verb,
    on: Resource<'_>,
    rule: AccessRule,
) -> Result<(), Denied> {
    if principal.is_admin() {
        return Ok(());
    }
    let forbidden = |why: String| Err(Denied::Forbidden(why));
    if verb == Verb::Administer {
        return forbidden(format!(
            "{} is for admins only: {} does not have the role admin",
            on.what, principal.name
        ));
    }
    if rule == AccessRule::OwnerOnly {
        return if principal.owns(on.owner) {
            Ok(())
        } else {
            forbidden(format!(
                "{} is not the owner of {}: only the owner or an admin may do this",
                principal.name, on.what
            ))
        };
    }
    if principal.project != on.project || principal.roles.is_empty() {
        return Err(Denied::Unseen(on.what.to_owned()));
    }
    let member = principal.roles.contains(&Role::Member);
    match verb {
        Verb::See | Verb::Administer => Ok(()),
        Verb::Change | Verb::SeeSecrets if member => Ok(()),
        Verb::Change => forbidden(format!(
            "{} may only read {}: changing it needs the role member in project {}",
            principal.name, on.what, on.project
        )),
        Verb::SeeSecrets => forbidden(format!(
            "{} may not see the secrets of {}: that needs the role member in project {}",
            principal.name, on.what, on.project
        )),
    }
}
