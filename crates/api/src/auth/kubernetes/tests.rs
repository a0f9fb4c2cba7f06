use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use http::{HeaderMap, HeaderValue, header};
use muster_core::time::{TimeSpan, Timestamp};
use muster_service::ports::identity::IdentityError;
use rstest::rstest;

use super::*;
use crate::auth::Authenticators;
use crate::error::ApiError;

/// A Kubernetes with a scripted answer that counts requests.
#[derive(Default)]
struct FakeIdentity {
    answer: Mutex<Option<Result<Option<TokenIdentity>, IdentityError>>>,
    asked: AtomicUsize,
}

impl FakeIdentity {
    fn answers(&self, answer: Result<Option<TokenIdentity>, IdentityError>) {
        *self.answer.lock().expect("no other test panicked") = Some(answer);
    }
}

#[async_trait]
impl Identity for FakeIdentity {
    async fn identify_token(&self, _: &str) -> Result<Option<TokenIdentity>, IdentityError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.answer.lock().expect("no other test panicked").clone().expect("an answer")
    }

    /// Allows members of the group `editors:<namespace>` to create pods.
    async fn may_create_pods(&self, user: &TokenIdentity, namespace: &str) -> Result<bool, IdentityError> {
        Ok(user.groups.contains(&format!("editors:{namespace}")))
    }
}

/// A clock that the test advances.
#[derive(Clone, Default)]
struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    fn advance(&self, span: TimeSpan) {
        self.0.fetch_add(Timestamp::from_micros(0).after(span).micros(), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

struct Harness {
    identity: Arc<FakeIdentity>,
    clock: ManualClock,
    chain: Authenticators,
}

fn harness() -> Harness {
    let (identity, clock) = (Arc::<FakeIdentity>::default(), ManualClock::default());
    let pairs = [("demo".to_owned(), "team-a".to_owned())];
    let projects = ProjectNamespaces::try_from(std::collections::BTreeMap::from(pairs)).expect("good pairs");
    let tokens = KubernetesTokens::new(
        Arc::clone(&identity) as Arc<dyn Identity>,
        "people",
        ["system:masters".to_owned()],
        projects,
        Arc::new(clock.clone()),
    );
    Harness { identity, clock, chain: Authenticators::new().with(tokens) }
}

fn token_of(user: &str, groups: &[&str]) -> TokenIdentity {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    TokenIdentity { user: user.to_owned(), groups }
}

async fn call(harness: &Harness, token: &str) -> Result<Principal, AuthError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::from_str(token).expect("a header"));
    harness.chain.identify(UnauthenticatedCaller { headers: &headers }).await
}

#[rstest]
#[case("system:serviceaccount:plain:robot", &["system:serviceaccounts"], "robot", "plain", Role::Reader)]
#[case("system:serviceaccount:plain:robot", &["editors:plain"], "robot", "plain", Role::Member)]
#[case("system:serviceaccount:team-a:robot", &["editors:team-a"], "robot", "demo", Role::Member)]
#[case("system:serviceaccount:team-a:robot", &["editors:demo"], "robot", "demo", Role::Reader)]
#[case("ann", &["system:authenticated"], "ann", "people", Role::Reader)]
#[case("ann", &["editors:people"], "ann", "people", Role::Member)]
#[case("root", &["system:masters"], "root", "people", Role::Admin)]
#[tokio::test]
async fn a_user_of_kubernetes_has_a_project_and_a_role(
    #[case] user: &str,
    #[case] groups: &[&str],
    #[case] name: &str,
    #[case] project: &str,
    #[case] role: Role,
) {
    let harness = harness();
    harness.identity.answers(Ok(Some(token_of(user, groups))));
    let principal = call(&harness, "Bearer t").await.unwrap();
    let expected = Principal {
        scheme: "kubernetes".to_owned(),
        id: user.to_owned(),
        name: name.to_owned(),
        project: project.to_owned(),
        roles: [role].into(),
    };
    assert_eq!(principal, expected);
}

#[tokio::test]
async fn an_account_in_a_namespace_of_no_project_is_refused() {
    let harness = harness();
    harness.identity.answers(Ok(Some(token_of("system:serviceaccount:demo:robot", &[]))));
    let why = call(&harness, "t").await.unwrap_err().to_string();
    assert!(why.contains("namespace 'demo', which belongs to no project"), "{why}");
}

#[tokio::test]
async fn good_and_bad_answers_hold_for_a_moment_and_none_does_not() {
    let harness = harness();
    let asked = || harness.identity.asked.load(Ordering::Relaxed);
    harness.identity.answers(Ok(Some(token_of("ann", &[]))));
    call(&harness, "good").await.unwrap();
    harness.identity.answers(Ok(None));
    call(&harness, "good").await.unwrap();
    assert_eq!(asked(), 1, "remembered");
    call(&harness, "bad").await.unwrap_err();
    call(&harness, "bad").await.unwrap_err();
    assert_eq!(asked(), 2, "a bad one too");

    harness.clock.advance(TimeSpan::from_secs(5));
    call(&harness, "good").await.unwrap_err();
    assert_eq!(asked(), 3, "it was taken back meanwhile");

    for (error, status) in
        [(IdentityError::Unavailable as fn(String) -> IdentityError, 503), (IdentityError::NotAllowed, 500)]
    {
        harness.identity.answers(Err(error("Kubernetes does not say".to_owned())));
        let error = ApiError::from(call(&harness, "new").await.unwrap_err());
        assert_eq!(error.status.as_u16(), status);
        assert_eq!(error.message, "cannot identify the caller: Kubernetes does not say");
    }
    assert_eq!(asked(), 5, "it is asked again");
}

#[tokio::test]
async fn tokens_of_muster_are_not_shown_to_kubernetes() {
    let harness = harness();
    assert!(matches!(call(&harness, "Bearer mst_secret").await, Err(AuthError::Refused(_))));
    assert_eq!(harness.identity.asked.load(Ordering::Relaxed), 0);
}
