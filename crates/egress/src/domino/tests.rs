use rstest::rstest;
use serde_json::json;

use super::*;

#[rstest]
#[case::user(json!({"isAnonymous": false, "isAdmin": false, "canonicalId": "u1", "canonicalName": "ann"}), Ok(Some(("u1", "ann", false))))]
#[case::admin(json!({"isAnonymous": false, "isAdmin": true, "canonicalId": "u1", "canonicalName": "ann"}), Ok(Some(("u1", "ann", true))))]
#[case::flags_missing(json!({"canonicalId": "u1"}), Ok(Some(("u1", "u1", false))))]
#[case::anonymous(json!({"isAnonymous": true, "canonicalId": "u1"}), Ok(None))]
#[case::anonymous_admin(json!({"isAnonymous": true, "isAdmin": true, "canonicalId": "u1"}), Ok(None))]
#[case::odd_flag(json!({"isAnonymous": "yes", "canonicalId": "u1"}), Ok(None))]
#[case::admin_as_a_text(json!({"canonicalId": "u1", "isAdmin": "true"}), Ok(Some(("u1", "u1", false))))]
#[case::no_id(json!({"isAnonymous": false, "isAdmin": true}), Err(()))]
#[case::odd_id(json!({"canonicalId": 7}), Err(()))]
#[case::no_object(json!(["u1"]), Err(()))]
fn a_principal_is_a_user_unless_it_is_anonymous(
    #[case] principal: Value,
    #[case] expected: Result<Option<(&str, &str, bool)>, ()>,
) {
    let found = user(&principal);
    let found = found
        .as_ref()
        .map(|user| user.as_ref().map(|user| (user.id.as_str(), user.name.as_str(), user.is_admin)));
    assert_eq!(found.map_err(|_| ()), expected);
}

#[test]
fn the_same_text_in_two_headers_is_two_credentials() {
    let (key, token) =
        (DominoCredentials::ApiKey("x".to_owned()), DominoCredentials::Authorization("x".to_owned()));
    assert_ne!(cache_key(&key), cache_key(&token));
    assert!(!format!("{key:?} {token:?}").contains('x'));
}
