use rstest::rstest;

use super::*;

fn checked(settings: &GuardSettings, host: &str, origin: Option<&str>) -> Result<(), ApiError> {
    let mut headers = HeaderMap::new();
    if !host.is_empty() {
        headers.insert(header::HOST, host.parse().unwrap());
    }
    if let Some(origin) = origin {
        headers.insert(header::ORIGIN, origin.parse().unwrap());
    }
    check(settings, &Uri::from_static("/apis"), &headers)
}

fn loopback() -> GuardSettings {
    GuardSettings { loopback: true, allowed_hosts: Vec::new() }
}

fn public(names: &[&str]) -> GuardSettings {
    GuardSettings { loopback: false, allowed_hosts: names.iter().map(|name| (*name).to_owned()).collect() }
}

#[rstest]
fn this_machine_is_known_by_its_own_names_on_any_port(
    #[values(
        "localhost",
        "localhost:8888",
        "127.0.0.1:1",
        "[::1]:8888",
        "[::1]",
        "LOCALHOST:80",
        "localhost.:80"
    )]
    host: &str,
) {
    assert_eq!(checked(&loopback(), host, None), Ok(()));
}

#[rstest]
fn a_foreign_name_for_this_machine_is_refused(
    #[values(
        "",
        "evil.example",
        "evil.example:8888",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "0.0.0.0"
    )]
    host: &str,
) {
    let error = checked(&loopback(), host, None).unwrap_err();
    assert_eq!((error.status.as_u16(), error.code.as_str()), (403, "HostNotAllowed"));
}

#[test]
fn http_2_names_the_host_in_the_request_line() {
    let check = |uri: &'static str| check(&loopback(), &Uri::from_static(uri), &HeaderMap::new());
    assert!(check("http://localhost:8887/a").is_ok());
    assert!(check("http://evil.example/a").is_err());
}

#[test]
fn elsewhere_only_a_list_restricts_the_names() {
    assert!(checked(&public(&[]), "anything.example", None).is_ok());
    assert!(checked(&public(&[]), "", None).is_ok());
    let listed = public(&["muster.example", "other.example:8443"]);
    assert!(checked(&listed, "muster.example:9000", None).is_ok());
    assert!(checked(&listed, "other.example:8443", None).is_ok());
    assert!(checked(&listed, "other.example:1", None).is_err());
    assert!(checked(&listed, "evil.example", None).is_err());
}

#[rstest]
#[case("localhost:8888", "http://localhost:8888", true)]
#[case("localhost", "http://localhost", true)]
#[case("localhost:80", "http://localhost", true)]
#[case("localhost:8888", "http://localhost:3000", false)]
#[case("localhost:8888", "http://127.0.0.1:8888", false)]
#[case("localhost:8888", "http://evil.example", false)]
#[case("localhost:8888", "null", false)]
#[case("localhost:8888", "", false)]
fn only_pages_of_the_same_origin_may_call(#[case] host: &str, #[case] origin: &str, #[case] good: bool) {
    assert_eq!(checked(&loopback(), host, Some(origin)).is_ok(), good);
}

#[test]
fn a_page_of_an_allowed_host_may_call_through_a_proxy() {
    let settings = public(&["muster.example", "backend"]);
    assert!(checked(&settings, "backend:8888", Some("https://muster.example")).is_ok());
    assert!(checked(&settings, "backend:8888", Some("https://evil.example")).is_err());
}
