use muster_core::principal::Role;
use rstest::rstest;

use super::*;

fn opened(verb: Verb, subject: AccessTarget, roles: &[Role]) -> Result<Access, Denied> {
    let principal = Principal {
        scheme: "tokens".to_owned(),
        id: "bob".to_owned(),
        name: "bob".to_owned(),
        project: "p".to_owned(),
        roles: roles.iter().copied().collect(),
    };
    Access::open(&Case::new("GET /things", verb, subject), principal)
}

#[rstest]
#[case(Verb::See, AccessTarget::Project, &[], false)]
#[case(Verb::See, AccessTarget::Project, &[Role::Reader], true)]
#[case(Verb::Change, AccessTarget::Project, &[Role::Reader], false)]
#[case(Verb::Change, AccessTarget::Project, &[Role::Member], true)]
#[case(Verb::Change, AccessTarget::Project, &[Role::Admin], true)]
#[case(Verb::Administer, AccessTarget::Server, &[Role::Member], false)]
#[case(Verb::Administer, AccessTarget::Server, &[Role::Admin], true)]
#[case(Verb::See, AccessTarget::Clusters, &[], false)]
#[case(Verb::See, AccessTarget::Anyone, &[], true)]
#[case(Verb::Change, AccessTarget::Closed, &[Role::Admin], false)]
fn an_operation_is_opened_by_role(
    #[case] verb: Verb,
    #[case] subject: AccessTarget,
    #[case] roles: &[Role],
    #[case] open: bool,
) {
    assert_eq!(opened(verb, subject, roles).is_ok(), open);
}

#[rstest]
#[case("p", "bob has no role in project p: things needs the role reader there")]
#[case("", "bob has no role in any project: things needs the role reader in one")]
fn a_caller_without_a_role_is_refused_by_the_name_of_its_project(
    #[case] project: &str,
    #[case] message: &str,
) {
    let principal = Principal {
        scheme: "tokens".to_owned(),
        id: "bob".to_owned(),
        name: "bob".to_owned(),
        project: project.to_owned(),
        roles: [].into(),
    };
    let denied = Access::open(&Case::new("GET /things", Verb::See, AccessTarget::Clusters), principal);
    assert_eq!(denied.unwrap_err().to_string(), message);
}

#[test]
fn only_admins_list_all_projects_and_only_if_they_ask() {
    let scope = |role, all| {
        let access = opened(Verb::See, AccessTarget::Project, &[role]).unwrap();
        access.list_scope(all).map(|project| project.map(str::to_owned)).ok()
    };
    assert_eq!(scope(Role::Admin, true), Some(None));
    assert_eq!(scope(Role::Admin, false), Some(Some("p".to_owned())));
    assert_eq!(scope(Role::Member, true), None);
    assert_eq!(scope(Role::Member, false), Some(Some("p".to_owned())));
}
