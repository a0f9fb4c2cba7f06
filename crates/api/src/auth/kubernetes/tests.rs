use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use http::{HeaderMap, HeaderValue, header};
use muster_core::time::{Span, Timestamp};
use muster_service::ports::identity::CannotTell;
use rstest::rstest;

use super::*;
use crate::auth::Authenticators;
use crate::error::ApiError;

/// A Kubernetes that says what it is told to, and counts.
#[derive(Default)]
struct Oracle {
    answer: Mutex<Option<Result<Option<Vouched>, CannotTell>>>,
    asked: AtomicUsize,
}

impl Oracle {
    fn says(&self, answer: Result<Option<Vouched>, CannotTell>) {
        *self.answer.lock().expect("nobody panicked") = Some(answer);
    }
}

#[async_trait]
impl Identity for Oracle {
    async fn of_token(&self, _: &str) -> Result<Option<Vouched>, CannotTell> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.answer.lock().expect("nobody panicked").clone().expect("an answer")
    }
}

/// A clock that goes on only when it is told to.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicI64>);

impl Hand {
    fn advance(&self, span: Span) {
        self.0.fetch_add(Timestamp::from_micros(0).after(span).micros(), Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

struct House {
    oracle: Arc<Oracle>,
    clock: Hand,
    chain: Authenticators,
}

fn house() -> House {
    let (oracle, clock) = (Arc::<Oracle>::default(), Hand::default());
    let pairs = [("demo".to_owned(), "team-a".to_owned())];
    let projects = ProjectNamespaces::try_from(std::collections::BTreeMap::from(pairs)).expect("good pairs");
    let tokens = KubernetesTokens::new(
        Arc::clone(&oracle) as Arc<dyn Identity>,
        "people",
        ["system:masters".to_owned()],
        projects,
        Arc::new(clock.clone()),
    );
    House { oracle, clock, chain: Authenticators::new().with(tokens) }
}

fn vouched(user: &str, groups: &[&str]) -> Vouched {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Vouched { user: user.to_owned(), groups }
}

async fn call(house: &House, token: &str) -> Result<Principal, AuthError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::from_str(token).expect("a header"));
    house.chain.identify(Caller { headers: &headers }).await
}

#[rstest]
#[case("system:serviceaccount:plain:robot", &["system:serviceaccounts"], "robot", "plain", Role::Member)]
#[case("system:serviceaccount:team-a:robot", &[], "robot", "demo", Role::Member)]
#[case("ann", &["system:authenticated"], "ann", "people", Role::Member)]
#[case("root", &["system:masters"], "root", "people", Role::Admin)]
#[tokio::test]
async fn whoever_kubernetes_vouches_for_has_a_project_and_a_role(
    #[case] user: &str,
    #[case] groups: &[&str],
    #[case] name: &str,
    #[case] project: &str,
    #[case] role: Role,
) {
    let house = house();
    house.oracle.says(Ok(Some(vouched(user, groups))));
    let principal = call(&house, "Bearer t").await.unwrap();
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
async fn an_account_in_a_namespace_of_nobody_is_refused() {
    let house = house();
    house.oracle.says(Ok(Some(vouched("system:serviceaccount:demo:robot", &[]))));
    let why = call(&house, "t").await.unwrap_err().to_string();
    assert!(why.contains("namespace 'demo', which is no project's"), "{why}");
}

#[tokio::test]
async fn good_and_bad_answers_hold_for_a_moment_and_none_does_not() {
    let house = house();
    let asked = || house.oracle.asked.load(Ordering::Relaxed);
    house.oracle.says(Ok(Some(vouched("ann", &[]))));
    call(&house, "good").await.unwrap();
    house.oracle.says(Ok(None));
    call(&house, "good").await.unwrap();
    assert_eq!(asked(), 1, "remembered");
    call(&house, "bad").await.unwrap_err();
    call(&house, "bad").await.unwrap_err();
    assert_eq!(asked(), 2, "a bad one too");

    house.clock.advance(Span::from_secs(5));
    call(&house, "good").await.unwrap_err();
    assert_eq!(asked(), 3, "it was taken back meanwhile");

    for (says, status) in
        [(CannotTell::ForNow as fn(String) -> CannotTell, 503), (CannotTell::NotAllowed, 500)]
    {
        house.oracle.says(Err(says("Kubernetes does not say".to_owned())));
        let error = ApiError::from(call(&house, "new").await.unwrap_err());
        assert_eq!(error.status.as_u16(), status);
        assert_eq!(error.sentence, "cannot tell who is calling: Kubernetes does not say");
    }
    assert_eq!(asked(), 5, "it is asked again");
}

#[tokio::test]
async fn tokens_of_muster_are_not_shown_to_kubernetes() {
    let house = house();
    assert!(matches!(call(&house, "Bearer mst_secret").await, Err(AuthError::Refused(_))));
    assert_eq!(house.oracle.asked.load(Ordering::Relaxed), 0);
}
