//! The search for objects by id, name or a prefix of an id.

use muster_core::policy::Policy;
use muster_store::reads::{Found, ObjectKind};
use muster_testkit::database_test;

use crate::harness::Harness;
use crate::policies::{create, policy};

#[database_test]
async fn many_are_found_at_once_each_as_if_it_were_alone(harness: Harness) {
    let store = &harness.store;
    let one = policy(0x1234_0000, "one", "a-1.0");
    let two = policy(0x1235_0000, "two", "a-1.0");
    let twins = [policy(0x4000_0000, "twin", "a-1.0"), policy(0x4100_0000, "twin", "a-1.0")];
    let other = Policy { project: "other".to_owned(), ..policy(0x2000_0000, "one", "a-1.0") };
    // Names that look like ids: the id of an existing row, and of none.
    let like_one = policy(0x3000_0000, &one.id.to_string(), "a-1.0");
    let like_none = policy(0x3100_0000, "00000000-0000-4000-8000-000000000000", "a-1.0");
    // A name that is a prefix of the id of another policy.
    let short = policy(0x5000_0000, "1235", "a-1.0");
    for policy in [&one, &two, &twins[0], &twins[1], &other, &like_one, &like_none, &short] {
        create(store, policy).await;
    }
    let id = one.id.to_string();
    let without_hyphens = id.replace('-', "");
    let expected = [
        (id.as_str(), Found::One(*one.id.as_uuid())),
        ("one", Found::One(*one.id.as_uuid())),
        ("two", Found::One(*two.id.as_uuid())),
        ("twin", Found::Several),
        ("1234", Found::One(*one.id.as_uuid())),
        ("123", Found::Several),
        ("1235", Found::One(*short.id.as_uuid())),
        (&like_none.name, Found::One(*like_none.id.as_uuid())),
        ("thr", Found::Nothing),
        ("2000", Found::Nothing),
        ("", Found::Nothing),
        ("o_e", Found::Nothing),
        (&without_hyphens, Found::Nothing),
        ("two", Found::One(*two.id.as_uuid())),
    ];
    let given: Vec<&str> = expected.iter().map(|(given, _)| *given).collect();
    let found: Vec<Found> = expected.iter().map(|(_, found)| *found).collect();
    assert_eq!(store.identify_all(ObjectKind::Policy, Some("demo"), &given).await.unwrap(), found);
    for (given, found) in expected {
        assert_eq!(store.identify(ObjectKind::Policy, Some("demo"), given).await.unwrap(), found, "{given}");
    }
    let of_all = store.identify_all(ObjectKind::Policy, None, &["one", "2000"]).await.unwrap();
    assert_eq!(of_all, [Found::Several, Found::One(*other.id.as_uuid())]);
    assert_eq!(store.identify_all(ObjectKind::Policy, None, &[]).await.unwrap(), []);
}

#[database_test]
async fn what_has_no_name_is_found_by_its_id_and_how_that_begins(harness: Harness) {
    let action = harness.create(1).await;
    let given = [action.id.to_string(), action.id.to_string()[..35].to_owned(), action.kind.to_string()];
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let found = harness.store.identify_all(ObjectKind::Action, None, &given).await.unwrap();
    let one = Found::One(*action.id.as_uuid());
    assert_eq!(found, [one, one, Found::Nothing]);
}
