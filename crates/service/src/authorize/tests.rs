use rstest::rstest;

use super::*;

fn principal(project: &str, roles: &[Role]) -> Principal {
    Principal {
        scheme: "tokens".to_owned(),
        id: "bob".to_owned(),
        name: "bob".to_owned(),
        project: project.to_owned(),
        roles: roles.iter().copied().collect(),
    }
}

const ADMIN: &[Role] = &[Role::Admin];
const MEMBER: &[Role] = &[Role::Member];
const READER: &[Role] = &[Role::Reader];

#[rstest]
#[case("other", ADMIN, Verb::Change, AccessRule::Members, "ok")]
#[case("other", ADMIN, Verb::Administer, AccessRule::Members, "ok")]
#[case("other", ADMIN, Verb::Change, AccessRule::OwnerOnly, "ok")]
#[case("p", MEMBER, Verb::See, AccessRule::Members, "ok")]
#[case("p", MEMBER, Verb::Change, AccessRule::Members, "ok")]
#[case("p", MEMBER, Verb::SeeSecrets, AccessRule::Members, "ok")]
#[case("p", MEMBER, Verb::Administer, AccessRule::Members, "forbidden")]
#[case("p", MEMBER, Verb::Change, AccessRule::OwnerOnly, "forbidden")]
#[case("p", MEMBER, Verb::See, AccessRule::OwnerOnly, "forbidden")]
#[case("other", MEMBER, Verb::See, AccessRule::OwnerOnly, "forbidden")]
#[case("", &[], Verb::Change, AccessRule::OwnerOnly, "forbidden")]
#[case("p", READER, Verb::See, AccessRule::Members, "ok")]
#[case("p", READER, Verb::Change, AccessRule::Members, "forbidden")]
#[case("p", READER, Verb::SeeSecrets, AccessRule::Members, "forbidden")]
#[case("p", &[], Verb::See, AccessRule::Members, "unseen")]
#[case("other", MEMBER, Verb::See, AccessRule::Members, "unseen")]
#[case("other", MEMBER, Verb::Change, AccessRule::Members, "unseen")]
#[case("other", MEMBER, Verb::Administer, AccessRule::Members, "forbidden")]
fn who_may_do_what(
    #[case] project: &str,
    #[case] roles: &[Role],
    #[case] verb: Verb,
    #[case] rule: AccessRule,
    #[case] expected: &str,
) {
    let owner = Owner { scheme: "tokens".to_owned(), id: "ann".to_owned(), name: "bob".to_owned() };
    let on = Resource { what: "cluster fred", project: "p", owner: &owner };
    let decision = match authorize(&principal(project, roles), verb, on, rule) {
        Ok(()) => "ok",
        Err(Denied::Unseen(_)) => "unseen",
        Err(Denied::Forbidden(_)) => "forbidden",
    };
    assert_eq!(decision, expected);
}

#[test]
fn owners_are_compared_with_their_scheme() {
    let bob = principal("elsewhere", &[]);
    let on = |owner| Resource { what: "cluster fred", project: "p", owner };
    let own = bob.as_owner();
    assert!(authorize(&bob, Verb::Change, on(&own), AccessRule::OwnerOnly).is_ok());
    assert!(authorize(&bob, Verb::See, on(&own), AccessRule::OwnerOnly).is_ok());
    let anonymous = Principal { id: String::new(), ..bob.clone() };
    let unowned = Owner { scheme: bob.scheme.clone(), ..Owner::default() };
    assert!(authorize(&anonymous, Verb::See, on(&unowned), AccessRule::OwnerOnly).is_err());
    let other = Owner { scheme: "oidc".to_owned(), ..bob.as_owner() };
    let denied = authorize(&bob, Verb::Change, on(&other), AccessRule::OwnerOnly).unwrap_err();
    assert!(matches!(denied, Denied::Forbidden(_)), "{denied}");
}
