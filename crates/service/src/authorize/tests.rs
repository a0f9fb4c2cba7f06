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
#[case("other", ADMIN, Verb::Change, Rule::Members, "ok")]
#[case("other", ADMIN, Verb::Administer, Rule::Members, "ok")]
#[case("other", ADMIN, Verb::Change, Rule::OwnerOnly, "ok")]
#[case("p", MEMBER, Verb::See, Rule::Members, "ok")]
#[case("p", MEMBER, Verb::Change, Rule::Members, "ok")]
#[case("p", MEMBER, Verb::SeeSecrets, Rule::Members, "ok")]
#[case("p", MEMBER, Verb::Administer, Rule::Members, "forbidden")]
#[case("p", MEMBER, Verb::Change, Rule::OwnerOnly, "forbidden")]
#[case("p", MEMBER, Verb::See, Rule::OwnerOnly, "forbidden")]
#[case("other", MEMBER, Verb::See, Rule::OwnerOnly, "forbidden")]
#[case("", &[], Verb::Change, Rule::OwnerOnly, "forbidden")]
#[case("p", READER, Verb::See, Rule::Members, "ok")]
#[case("p", READER, Verb::Change, Rule::Members, "forbidden")]
#[case("p", READER, Verb::SeeSecrets, Rule::Members, "forbidden")]
#[case("p", &[], Verb::See, Rule::Members, "unseen")]
#[case("other", MEMBER, Verb::See, Rule::Members, "unseen")]
#[case("other", MEMBER, Verb::Change, Rule::Members, "unseen")]
#[case("other", MEMBER, Verb::Administer, Rule::Members, "forbidden")]
fn who_may_do_what(
    #[case] project: &str,
    #[case] roles: &[Role],
    #[case] verb: Verb,
    #[case] rule: Rule,
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
    assert!(authorize(&bob, Verb::Change, on(&own), Rule::OwnerOnly).is_ok());
    assert!(authorize(&bob, Verb::See, on(&own), Rule::OwnerOnly).is_ok());
    let anonymous = Principal { id: String::new(), ..bob.clone() };
    let unowned = Owner { scheme: bob.scheme.clone(), ..Owner::default() };
    assert!(authorize(&anonymous, Verb::See, on(&unowned), Rule::OwnerOnly).is_err());
    let other = Owner { scheme: "oidc".to_owned(), ..bob.as_owner() };
    let denied = authorize(&bob, Verb::Change, on(&other), Rule::OwnerOnly).unwrap_err();
    assert!(matches!(denied, Denied::Forbidden(_)), "{denied}");
}
