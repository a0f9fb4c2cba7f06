use rstest::rstest;

use super::*;

fn id_for(given: &[u8]) -> String {
    let mut headers = HeaderMap::new();
    headers.insert(REQUEST_ID, HeaderValue::from_bytes(given).unwrap());
    id_of(&headers).to_str().unwrap().to_owned()
}

#[rstest]
#[case("r-1")]
#[case("0190f3a2-7b1c-7d4e-8f00-1234567890ab")]
#[case("load-balancer:7.abc_def")]
fn a_sane_id_is_kept(#[case] given: &str) {
    assert_eq!(id_for(given.as_bytes()), given);
}

#[rstest]
#[case(b"")]
#[case(b"two words")]
#[case(b"a\xffb")]
#[case(&[b'x'; LONGEST_ID + 1])]
fn any_other_is_replaced_by_a_new_one(#[case] given: &[u8]) {
    let id = id_for(given);
    assert!(id.parse::<Uuid>().is_ok(), "{id}");
}

#[test]
fn two_requests_without_an_id_get_two() {
    assert_ne!(id_of(&HeaderMap::new()), id_of(&HeaderMap::new()));
}

#[test]
fn an_unknown_method_has_no_label_of_its_own() {
    assert_eq!(method_of(&Method::from_bytes(b"BREW").unwrap()), "OTHER");
}

#[test]
fn a_path_with_a_secret_is_logged_as_its_api_says() {
    let mut request = Request::new(axum::body::Body::empty());
    assert_eq!(logged_path(&request), "/");
    request.extensions_mut().insert(LoggedPath("/…".to_owned()));
    assert_eq!(logged_path(&request), "/…");
}
