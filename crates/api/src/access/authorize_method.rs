//! Authorization of a method, before its handler runs.

use http::Extensions;
use muster_core::principal::Principal;

use super::{Access, of};
use crate::error::ApiError;

/// Authorizes a request to a method, as far as that can be decided before its object is read.
///
/// Expects the principal in the extensions, where the authentication layer has put it, and inserts the [`Access`].
pub fn authorize_method(method: &str, extensions: &mut Extensions) -> Result<(), ApiError> {
    let case = of(method).ok_or_else(|| {
        ApiError::unimplemented(format!("method {method} not found: list the methods by reflection"))
    })?;
    let principal = extensions.get::<Principal>().cloned();
    let principal = principal.ok_or_else(|| {
        ApiError::unauthenticated(
            "this request has no credentials: send a token in the Authorization or X-Auth-Token header",
        )
    })?;
    extensions.insert(Access::open(case, principal)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use muster_core::principal::Role;

    use super::*;

    fn entered(method: &str, roles: &[Role]) -> Result<Option<Access>, u16> {
        let principal = Principal {
            scheme: "tokens".to_owned(),
            id: "bob".to_owned(),
            name: "bob".to_owned(),
            project: "p".to_owned(),
            roles: roles.iter().copied().collect::<BTreeSet<_>>(),
        };
        let mut extensions = Extensions::new();
        extensions.insert(principal);
        authorize_method(method, &mut extensions).map_err(|error| error.status.as_u16())?;
        Ok(extensions.get::<Access>().cloned())
    }

    const LIST: &str = "/muster.v1alpha2.ClusterService/ListAllClusters";

    #[test]
    fn a_method_without_a_case_cannot_be_called() {
        assert_eq!(entered("/muster.v1alpha2.ClusterService/Forgotten", &[Role::Admin]).unwrap_err(), 501);
        assert_eq!(authorize_method(LIST, &mut Extensions::new()).unwrap_err().status.as_u16(), 401);
    }

    #[test]
    fn a_caller_without_a_role_sees_nothing() {
        assert_eq!(entered(LIST, &[]).unwrap_err(), 403);
        assert!(entered("/muster.v1alpha2.AdminService/WhoAmI", &[]).is_ok());
    }

    #[test]
    fn readers_see_what_can_be_run_and_members_may_change_it() {
        let (list, install) = (
            "/muster.v1alpha2.FrameworkService/ListFrameworks",
            "/muster.v1alpha2.FrameworkService/InstallFramework",
        );
        let let_in = |method, roles: &[Role]| entered(method, roles).map(|_| ());
        assert_eq!((let_in(list, &[]), let_in(install, &[])), (Err(403), Err(403)));
        assert_eq!((let_in(list, &[Role::Reader]), let_in(install, &[Role::Reader])), (Ok(()), Err(403)));
        assert_eq!((let_in(list, &[Role::Member]), let_in(install, &[Role::Member])), (Ok(()), Ok(())));
    }

    #[test]
    fn only_admins_see_beyond_their_project() {
        let scope = |role| {
            let access = entered(LIST, &[role]).unwrap().unwrap();
            access.scope().map(str::to_owned)
        };
        assert_eq!(scope(Role::Admin), None);
        assert_eq!(scope(Role::Reader).as_deref(), Some("p"));
        assert_eq!(entered("/muster.v1alpha2.AdminService/Shutdown", &[Role::Member]).unwrap_err(), 403);
    }
}
