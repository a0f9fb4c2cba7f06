use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use http::{HeaderMap, HeaderName, HeaderValue};
use muster_service::ports::domino::DominoUnavailable;
use rstest::rstest;

use super::*;
use crate::auth::Authenticators;

/// A Domino that knows one API key and one token.
struct FakeDomino;

#[async_trait]
impl DominoIdentity for FakeDomino {
    async fn identify(
        &self,
        credentials: &DominoCredentials,
    ) -> Result<Option<DominoUser>, DominoUnavailable> {
        let user = |id: &str, is_admin| Some(DominoUser { id: id.to_owned(), name: id.to_owned(), is_admin });
        Ok(match credentials {
            DominoCredentials::ApiKey(key) if key == "down" => {
                return Err(DominoUnavailable("it took too long".to_owned()));
            }
            DominoCredentials::ApiKey(key) if key == "key" => user("ann", false),
            DominoCredentials::Authorization(value) if value == "Bearer token" => user("root", true),
            _ => None,
        })
    }
}

fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
    let header = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
    };
    given.iter().map(header).collect()
}

#[tokio::test]
async fn a_caller_without_credentials_is_referred_to_the_headers_of_domino() {
    let users = Authenticators::new().with(DominoUsers::new(Arc::new(FakeDomino)));
    for (given, expected) in [
        (
            &[][..],
            "credentials are needed: send an API key or a token in the X-Domino-Api-Key or Authorization header",
        ),
        (
            &[("x-domino-api-key", "wrong")][..],
            "the credentials in the X-Domino-Api-Key or Authorization header are not",
        ),
        (
            &[("x-domino-api-key", "mst_0123")][..],
            "the credentials in the X-Domino-Api-Key or Authorization header are not",
        ),
    ] {
        let headers = headers(given);
        let refused = users
            .identify(UnauthenticatedCaller { headers: &headers })
            .await
            .expect_err("refused")
            .to_string();
        assert!(refused.starts_with(expected), "{refused}");
    }
}

#[rstest]
#[case::key(&[("x-domino-api-key", "key")], Ok(Some("ann")))]
#[case::token(&[("authorization", "Bearer token")], Ok(Some("root")))]
#[case::key_wins(&[("x-domino-api-key", "key"), ("authorization", "Bearer token")], Ok(Some("ann")))]
#[case::wrong_key_wins(&[("x-domino-api-key", "wrong"), ("authorization", "Bearer token")], Ok(None))]
#[case::empty_key(&[("x-domino-api-key", ""), ("authorization", "Bearer token")], Ok(Some("root")))]
#[case::ours(&[("authorization", "Bearer mst_token")], Ok(None))]
#[case::none(&[], Ok(None))]
#[case::down(&[("x-domino-api-key", "down")], Err("cannot identify the caller: it took too long"))]
#[tokio::test]
async fn users_are_those_that_domino_knows(
    #[case] given: &[(&'static str, &str)],
    #[case] expected: Result<Option<&str>, &str>,
) {
    let headers = headers(given);
    let found = DominoUsers::new(Arc::new(FakeDomino))
        .authenticate(UnauthenticatedCaller { headers: &headers })
        .await;
    let found =
        found.map(|principal| principal.map(|principal| principal.id)).map_err(|error| error.to_string());
    assert_eq!(found.as_ref().map(Option::as_deref).map_err(String::as_str), expected);
}

#[tokio::test]
async fn users_have_no_role_and_no_project_unless_they_are_admins() {
    let authenticate = async |given: &[(&'static str, &str)]| {
        let headers = headers(given);
        let found = DominoUsers::new(Arc::new(FakeDomino))
            .authenticate(UnauthenticatedCaller { headers: &headers })
            .await;
        found.expect("an answer").expect("a principal")
    };
    let user = authenticate(&[("x-domino-api-key", "key")]).await;
    assert_eq!((user.scheme.as_str(), user.project.as_str(), user.roles.len()), ("domino", "", 0));
    assert!(authenticate(&[("authorization", "Bearer token")]).await.is_admin());
}

/// Knows every caller.
struct Everyone;

#[async_trait]
impl Authenticator for Everyone {
    fn scheme(&self) -> &'static str {
        "everyone"
    }

    async fn authenticate(&self, _: UnauthenticatedCaller<'_>) -> Result<Option<Principal>, AuthError> {
        Ok(Some(principal(DominoUser { id: "eve".to_owned(), name: "eve".to_owned(), is_admin: false })))
    }

    async fn resolve(&self, _: &Principal) -> Result<Option<Principal>, AuthError> {
        Ok(None)
    }
}

#[rstest]
#[case::key("down", Err(AuthError::NotVerifiable("cannot identify the caller: it took too long".to_owned())))]
#[case::wrong_key("wrong", Ok("eve"))]
#[tokio::test]
async fn an_api_key_that_cannot_be_verified_is_of_no_other_scheme(
    #[case] key: &str,
    #[case] expected: Result<&str, AuthError>,
) {
    let headers = headers(&[("x-domino-api-key", key)]);
    let chain = Authenticators::new().with(DominoUsers::new(Arc::new(FakeDomino))).with(Everyone);
    let found =
        chain.identify(UnauthenticatedCaller { headers: &headers }).await.map(|principal| principal.id);
    assert_eq!(found.as_deref().map_err(Clone::clone), expected);
}

#[rstest]
#[case::key("x-domino-api-key", "mst_0123")]
#[case::inside_of_a_key("x-domino-api-key", "key-mst_0123")]
#[case::bearer("authorization", "Bearer mst_0123")]
#[case::without_scheme("authorization", "mst_0123")]
#[case::other_scheme("authorization", "Token mst_0123")]
#[case::parameter("authorization", "Token token=\"mst_0123\"")]
#[case::bearer_in_a_key("x-domino-api-key", "Bearer mst_0123")]
#[case::twice("authorization", "Bearer Bearer mst_0123")]
#[case::basic_as_it_is("authorization", "Basic mst_0123")]
fn tokens_of_muster_are_not_forwarded(#[case] header: &'static str, #[case] value: &str) {
    let headers = headers(&[(header, value)]);
    assert_eq!(UnauthenticatedCaller { headers: &headers }.domino_credentials(), None);
}

#[rstest]
#[case::password("ann:mst_0123")]
#[case::user("mst_0123:")]
#[case::only("mst_0123")]
#[case::inside("ann:my mst_0123")]
#[case::not_text("\u{fc}:mst_0123")]
fn tokens_of_muster_in_basic_credentials_are_not_forwarded(#[case] decoded: &str) {
    for (name, encoded) in [
        ("authorization", format!("Basic {}", STANDARD.encode(decoded))),
        ("authorization", format!("basic  {}", STANDARD_NO_PAD.encode(decoded))),
        ("authorization", format!("Basic {}", URL_SAFE.encode(decoded))),
        ("x-domino-api-key", STANDARD.encode(decoded)),
    ] {
        let headers = headers(&[(name, &encoded)]);
        assert_eq!(
            UnauthenticatedCaller { headers: &headers }.domino_credentials(),
            None,
            "{name}: {encoded}"
        );
    }
}

#[rstest]
#[case::basic("Basic YW5uOnNlY3JldA==")]
#[case::bearer("Bearer 0123")]
// A JWT may contain the prefix of Muster's tokens by chance.
#[case::jwt("Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.abmst_0123")]
#[case::not_base64("Basic ?")]
fn other_credentials_are_forwarded_unchanged(#[case] value: &str) {
    let headers = headers(&[("authorization", value)]);
    let expected = Some(DominoCredentials::Authorization(value.to_owned()));
    assert_eq!(UnauthenticatedCaller { headers: &headers }.domino_credentials(), expected);
}
