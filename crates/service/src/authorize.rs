//! The one function that decides who may do what.

use muster_core::principal::{Owner, Principal, Role};

use crate::access::Verb;

#[cfg(test)]
mod tests;

/// The object of an authorization decision.
#[derive(Debug, Clone, Copy)]
pub struct Resource<'a> {
    /// What it is, for the message: `cluster 'fred'`.
    pub what: &'a str,
    /// The tenant that it belongs to.
    pub project: &'a str,
    /// The user that it belongs to.
    pub owner: &'a Owner,
}

/// Who besides admins may change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Every member of its project.
    Members,
    /// Its owner.
    OwnerOnly,
}

/// A refusal of [`authorize`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The caller may not see it, so for this caller it does not exist.
    #[error("{0} is not there")]
    Unseen(String),
    /// The caller may see it, but not do this.
    #[error("{0}")]
    Forbidden(String),
}

/// Decides whether a principal may do something to something. Admins may do anything; a project's members see and
/// change what is in it, its readers see it; for everyone else it does not exist.
pub fn authorize(principal: &Principal, verb: Verb, on: Resource<'_>, rule: Rule) -> Result<(), Denied> {
    if principal.is_admin() {
        return Ok(());
    }
    let forbidden = |why: String| Err(Denied::Forbidden(why));
    if verb == Verb::Administer {
        return forbidden(format!("{} is for admins only, and {} is none", on.what, principal.name));
    }
    let owns = principal.as_owner();
    let is_owner = (&owns.scheme, &owns.id) == (&on.owner.scheme, &on.owner.id);
    let in_project = principal.project == on.project && !principal.roles.is_empty();
    if !(in_project || (rule == Rule::OwnerOnly && is_owner)) {
        return Err(Denied::Unseen(on.what.to_owned()));
    }
    let member = principal.roles.contains(&Role::Member);
    match (verb, rule) {
        (Verb::See | Verb::Administer, _) => Ok(()),
        (Verb::Change | Verb::SeeSecrets, Rule::Members) if member => Ok(()),
        (Verb::Change | Verb::SeeSecrets, Rule::OwnerOnly) if is_owner => Ok(()),
        (Verb::Change, Rule::Members) => forbidden(format!(
            "{} may only look at {}: changing it needs the role member in project {}",
            principal.name, on.what, on.project
        )),
        (Verb::SeeSecrets, Rule::Members) => forbidden(format!(
            "{} may not see the secrets of {}: that needs the role member in project {}",
            principal.name, on.what, on.project
        )),
        (Verb::Change | Verb::SeeSecrets, Rule::OwnerOnly) => forbidden(format!(
            "{} is not the owner of {}: only the owner or an admin may do this",
            principal.name, on.what
        )),
    }
}
