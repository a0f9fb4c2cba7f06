use std::sync::atomic::{AtomicUsize, Ordering};

use muster_engine::ports::clock::SystemClock;
use muster_testkit::FakeDomino;
use muster_testkit::outside::{Outside, Reply};
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
    let found = parse_user(&principal);
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

fn domino(fake: &FakeDomino) -> Domino {
    drop(rustls::crypto::ring::default_provider().install_default());
    Domino::new(&fake.url().parse().expect("a URL"), Arc::new(SystemClock)).expect("a client")
}

fn key(text: &str) -> DominoCredentials {
    DominoCredentials::ApiKey(text.to_owned())
}

#[tokio::test]
async fn users_and_tiers_are_cached() {
    let mut fake = FakeDomino::start().await;
    let domino = domino(&fake);
    for _ in 0..3 {
        let ann = domino.identify(&key("ann")).await.expect("an answer").expect("a user");
        assert_eq!((ann.id.as_str(), ann.is_admin), ("id-ann", false));
        assert_eq!(domino.identify(&key("mallory")).await, Ok(None));
        let tiers = domino.tiers(&key("ann")).await.expect("tiers");
        assert_eq!(
            tiers.iter().map(|tier| tier.name.as_str()).collect::<Vec<_>>(),
            ["Small", "Medium", "GPU", "Lost", "MPI"]
        );
    }
    let lines: Vec<String> = fake.received().into_iter().map(|called| called.line).collect();
    let principal = "GET /v4/auth/principal";
    assert_eq!(lines, [principal, principal, "GET /v4/hardwareTier"]);
}

#[rstest]
#[case::down(Reply::Closed, 3)]
#[case::restarting(Reply::Now(503, String::new()), 3)]
#[case::defect(Reply::Now(500, String::new()), 1)]
#[case::elsewhere(Reply::Now(302, String::new()), 1)]
#[case::page(Reply::Now(200, "<html>".to_owned()), 1)]
#[case::empty(Reply::Now(200, "{}".to_owned()), 1)]
#[tokio::test]
async fn temporary_failures_are_retried_and_no_failure_is_cached(
    #[case] reply: Reply,
    #[case] attempts: usize,
) {
    let mut fake = FakeDomino::start().await;
    let domino = domino(&fake);
    fake.fails(reply);
    let why = domino.identify(&key("ann")).await.expect_err("it does not answer");
    assert!(why.0.starts_with("Domino is unavailable: "), "{why}");
    assert_eq!(fake.received().len(), attempts);
    fake.recovers();
    assert!(domino.identify(&key("ann")).await.expect("an answer").is_some());
}

/// A response to a request for a user.
const USER: &str = r#"{"canonicalId": "u1"}"#;

/// A time that no request of a test takes.
const NEVER: Duration = Duration::from_mins(1);

fn slow_domino(outside: &Outside, limits: TimeLimits) -> Domino {
    drop(rustls::crypto::ring::default_provider().install_default());
    let url = outside.url("").parse().expect("a URL");
    Domino::with_limits(&url, Arc::new(SystemClock), limits).expect("a client")
}

#[tokio::test]
async fn a_slow_response_within_the_total_time_is_used() {
    let late = Reply::Late(Duration::from_millis(300), 200, USER.to_owned());
    let outside = Outside::answering(move |_| late.clone()).await;
    let limits = TimeLimits { total: NEVER, slow: Duration::from_millis(20) };
    let user = slow_domino(&outside, limits).identify(&key("ann")).await;
    assert_eq!(user.expect("an answer").expect("a user").id, "u1");
}

#[tokio::test]
async fn a_request_without_a_response_is_repeated() {
    let requests = AtomicUsize::new(0);
    let mut outside = Outside::answering(move |_| match requests.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::Late(NEVER, 200, USER.to_owned()),
        _ => Reply::Now(200, USER.to_owned()),
    })
    .await;
    let limits = TimeLimits { total: NEVER, slow: Duration::from_millis(20) };
    let user = slow_domino(&outside, limits).identify(&key("ann")).await;
    assert!(user.expect("an answer").is_some());
    assert_eq!(outside.received().len(), 2);
}

#[tokio::test]
async fn a_slow_response_is_used_although_the_repeated_request_fails() {
    let requests = AtomicUsize::new(0);
    let outside = Outside::answering(move |_| match requests.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::Late(Duration::from_secs(1), 200, USER.to_owned()),
        _ => Reply::Now(500, String::new()),
    })
    .await;
    let limits = TimeLimits { total: NEVER, slow: Duration::from_millis(20) };
    let user = slow_domino(&outside, limits).identify(&key("ann")).await;
    assert!(user.expect("an answer").is_some());
}

#[tokio::test]
async fn a_request_ends_at_the_total_time() {
    let outside = Outside::answering(|_| Reply::Late(NEVER, 200, USER.to_owned())).await;
    for slow in [Duration::from_millis(20), NEVER] {
        let limits = TimeLimits { total: Duration::from_millis(200), slow };
        let request = slow_domino(&outside, limits).identify(&key("ann")).await;
        let why = request.expect_err("it does not answer");
        assert_eq!(why.0, "Domino is unavailable: it did not respond in time");
    }
    assert!(LIMITS.total < Duration::from_secs(5));
}
