//! The authorization of each operation of an API, and the caller within an operation.
//!
//! Every API has a table of [`Case`]s, one per operation. [`Access::open`] decides as much as can be decided before
//! the object of a request is found; [`Access::check`] decides about the object. Both go through [`authorize`].

use muster_core::principal::{Owner, Principal};

use crate::authorize::{AccessRule, Denied, Resource, authorize};

#[cfg(test)]
mod tests;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads objects.
    See,
    /// Creates, changes or deletes objects.
    Change,
    /// Reads secrets, which callers with the role reader may not.
    SeeSecrets,
    /// Administers the server.
    Administer,
}

/// The object of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessTarget {
    /// The namespace of a new object.
    Namespace,
    /// One cluster.
    Cluster,
    /// The clusters that the caller may see.
    Clusters,
    /// One cluster that the caller owns; any cluster for admins.
    OwnCluster,
    /// The clusters that the caller owns; all clusters for admins.
    OwnClusters,
    /// One action.
    Action,
    /// The actions that the caller may see.
    Actions,
    /// One compute template.
    ComputeTemplate,
    /// The compute templates that the caller may see.
    ComputeTemplates,
    /// One image template.
    ImageTemplate,
    /// The image templates that the caller may see.
    ImageTemplates,
    /// One job.
    Job,
    /// The jobs that the caller may see.
    Jobs,
    /// One app.
    App,
    /// The apps that the caller may see.
    Apps,
    /// The frameworks that local processes of the server run.
    Frameworks,
    /// The caller's own project; its objects are then found within the project.
    Project,
    /// The server.
    Server,
    /// An object of no project, which is open to every authenticated caller.
    Anyone,
    /// An operation that is open without authentication.
    Public,
    /// An operation that is closed to every caller; its route exists only to refuse requests.
    Closed,
}

/// The authorization of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// The operation as its API names it: a gRPC path, or an HTTP method and a path template.
    pub operation: &'static str,
    /// The kind of operation.
    pub verb: Verb,
    /// The object of the operation.
    pub subject: AccessTarget,
}

impl Case {
    /// A row of the authorization table of an API.
    pub const fn new(operation: &'static str, verb: Verb, subject: AccessTarget) -> Self {
        Self { operation, verb, subject }
    }
}

/// An authenticated caller within one operation.
#[derive(Debug, Clone)]
pub struct Access {
    principal: Principal,
    verb: Verb,
    rule: AccessRule,
}

impl Access {
    /// Opens an operation to a caller, as far as that can be decided before the object is found.
    pub fn open(case: &Case, principal: Principal) -> Result<Self, Denied> {
        let name = case.operation.rsplit('/').next().unwrap_or(case.operation);
        let on = |what, project| Resource { what, project, owner: &UNOWNED };
        match (case.verb, case.subject) {
            (_, AccessTarget::Closed) => return Err(Denied::Forbidden(format!("{name} is not available"))),
            (Verb::Administer, _) | (_, AccessTarget::Server) => {
                authorize(&principal, Verb::Administer, on(name, ""), AccessRule::Members)?;
            }
            // Frameworks belong to no project, so the caller's role in its own project decides.
            (
                verb,
                AccessTarget::Clusters
                | AccessTarget::Actions
                | AccessTarget::ComputeTemplates
                | AccessTarget::ImageTemplates
                | AccessTarget::Jobs
                | AccessTarget::Apps
                | AccessTarget::Frameworks,
            ) => {
                let what = match case.subject {
                    AccessTarget::Frameworks => "the frameworks of this server",
                    _ => name,
                };
                authorize(&principal, verb, on(what, &principal.project), AccessRule::Members).map_err(
                    |denied| match denied {
                        Denied::Unseen(_) if principal.project.is_empty() => Denied::Forbidden(format!(
                            "{} has no role in any project: {name} needs the role reader in one",
                            principal.name
                        )),
                        Denied::Unseen(_) => Denied::Forbidden(format!(
                            "{} has no role in project {}: {name} needs the role reader there",
                            principal.name, principal.project
                        )),
                        denied @ Denied::Forbidden(_) => denied,
                    },
                )?;
            }
            (verb, AccessTarget::Project) => {
                let what = format!("project '{}'", principal.project);
                authorize(&principal, verb, on(&what, &principal.project), AccessRule::Members)?;
            }
            _ => {}
        }
        let rule = match case.subject {
            AccessTarget::OwnCluster | AccessTarget::OwnClusters => AccessRule::OwnerOnly,
            _ => AccessRule::Members,
        };
        Ok(Self { principal, verb: case.verb, rule })
    }

    /// The caller.
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The kind of the operation.
    pub const fn verb(&self) -> Verb {
        self.verb
    }

    /// Decides if the caller may perform the operation on this object.
    pub fn check(&self, on: Resource<'_>) -> Result<(), Denied> {
        authorize(&self.principal, self.verb, on, self.rule)
    }

    /// The project whose objects the caller may see; none stands for all projects.
    pub fn scope(&self) -> Option<&str> {
        (!self.principal.is_admin()).then_some(self.principal.project.as_str())
    }

    /// The project that a list is limited to; none stands for all projects. Callers see their own project, unless
    /// they ask for all projects, which only admins may.
    pub fn list_scope(&self, all_projects: bool) -> Result<Option<&str>, Denied> {
        let own = self.principal.project.as_str();
        match all_projects {
            false => Ok(Some(own)),
            true if self.scope().is_none() => Ok(None),
            true => {
                let what = "a list of all projects";
                authorize(
                    &self.principal,
                    Verb::Administer,
                    Resource { what, project: "", owner: &UNOWNED },
                    AccessRule::Members,
                )?;
                Ok(None)
            }
        }
    }
}

/// The owner of objects that belong to no user.
pub static UNOWNED: Owner = Owner { scheme: String::new(), id: String::new(), name: String::new() };
