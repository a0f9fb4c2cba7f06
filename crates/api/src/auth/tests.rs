use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;

use http::HeaderValue;
use muster_core::principal::Role;
use muster_core::time::Timestamp;
use rstest::rstest;

use super::*;

fn headers(authorization: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(value) = authorization {
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    }
    headers
}

async fn identify(by: &Authenticators, authorization: Option<&str>) -> Result<Principal, AuthError> {
    by.identify(UnauthenticatedCaller { headers: &headers(authorization) }).await
}

fn user() -> OsUser {
    OsUser { uid: 1000, name: "ada".to_owned() }
}

fn entry(name: &str, role: Role, token: &str) -> String {
    let entry = TokenEntry {
        name: name.to_owned(),
        project: "p".to_owned(),
        roles: [role].into(),
        sha256: hash(token),
    };
    toml::to_string(&TokensFile { token: vec![entry] }).unwrap()
}

#[rstest]
#[case(None, None)]
#[case(Some("Bearer t"), Some("t"))]
#[case(Some("bearer  t "), Some("t"))]
#[case(Some("t"), Some("t"))]
#[case(Some("Bearer "), None)]
#[case(Some("Basic dDp0"), None)]
#[case(Some(""), None)]
fn a_token_comes_with_or_without_bearer(#[case] given: Option<&str>, #[case] token: Option<&str>) {
    assert_eq!(UnauthenticatedCaller { headers: &headers(given) }.token(), token);
}

#[tokio::test]
async fn a_caller_with_the_token_of_the_folder_is_the_servers_user() {
    let dir = tempfile::tempdir().unwrap();
    let local = Authenticators::new().with(Local::open(dir.path(), user()).unwrap());
    let path = dir.path().join(TOKEN_FILE);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let token = Local::read_token(dir.path()).unwrap();
    let principal = identify(&local, Some(&format!("Bearer {token}"))).await.unwrap();
    assert_eq!(
        (principal.scheme.as_str(), principal.id.as_str(), principal.name.as_str()),
        ("local", "1000", "ada")
    );
    assert!(principal.is_admin());
    assert!(identify(&local, Some(&format!("{token}x"))).await.is_err());

    let again = Authenticators::new().with(Local::open(dir.path(), user()).unwrap());
    assert!(identify(&again, Some(&token)).await.is_ok(), "the token outlives the server");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
}

#[test]
fn a_token_that_others_can_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    Local::open(dir.path(), user()).unwrap();
    fs::set_permissions(dir.path().join(TOKEN_FILE), fs::Permissions::from_mode(0o644)).unwrap();
    let error = Local::open(dir.path(), user()).unwrap_err().to_string();
    assert!(error.contains("mode 644"), "{error}");
}

#[test]
fn an_empty_token_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(TOKEN_FILE), "\n").unwrap();
    fs::set_permissions(dir.path().join(TOKEN_FILE), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(Local::open(dir.path(), user()).unwrap_err().to_string().contains("is empty"));
}

#[test]
fn a_user_has_the_name_of_its_number() {
    let users = "root:x:0:0::/root:/bin/sh\nbroken\nada:x:1000:1000::/home/ada:/bin/sh\n";
    assert_eq!(local::name_of(1000, users).as_deref(), Some("ada"));
    assert_eq!(local::name_of(7, users), None);
}

#[rstest]
#[case(true, &["127.0.0.1:1", "[::1]:2"], None)]
#[case(false, &["127.0.0.1:1"], Some("--dev"))]
#[case(true, &["127.0.0.1:1", "0.0.0.0:2"], Some("0.0.0.0:2"))]
fn authentication_is_skipped_only_in_development_and_on_loopback(
    #[case] dev: bool,
    #[case] listeners: &[&str],
    #[case] refusal: Option<&str>,
) {
    let listeners: Vec<SocketAddr> = listeners.iter().map(|address| address.parse().unwrap()).collect();
    match (NoAuthentication::new(dev, &listeners), refusal) {
        (Ok(_), None) => {}
        (Err(error), Some(expected)) => assert!(error.to_string().contains(expected), "{error}"),
        (made, _) => panic!("{made:?}"),
    }
}

#[tokio::test]
async fn a_tokens_file_is_read_again_when_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.toml");
    fs::write(&path, entry("bob", Role::Reader, "first")).unwrap();
    let tokens = Authenticators::new().with(Tokens::open(&path).unwrap());
    let principal = identify(&tokens, Some("Bearer first")).await.unwrap();
    assert_eq!(
        (principal.scheme.as_str(), principal.id.as_str(), principal.project.as_str()),
        ("tokens", "bob", "p")
    );

    fs::write(&path, entry("robert", Role::Member, "second")).unwrap();
    assert!(identify(&tokens, Some("first")).await.is_err());
    assert_eq!(identify(&tokens, Some("second")).await.unwrap().name, "robert");

    fs::write(&path, "[[token").unwrap();
    assert!(identify(&tokens, Some("second")).await.is_ok(), "while the file is wrong the last one holds");
    fs::remove_file(&path).unwrap();
    assert!(identify(&tokens, Some("second")).await.is_ok(), "while there is no file the last one holds");
}

#[rstest]
#[case("[[token]]\nname = 'a'", "missing field")]
#[case("[[token]]\nname='a'\nproject='p'\nroles=['king']\nsha256=''", "king")]
#[case("[[token]]\nname='a'\nproject='p'\nroles=['admin']\nsha256='AB'", "64 hexadecimal digits")]
#[case("[[token]]\nname='a'\nproject='p'\nroles=[]\nsha256=''\nmore=1", "more")]
fn an_invalid_tokens_file_is_refused_with_a_reason(#[case] text: &str, #[case] expected: &str) {
    let error = TokensFile::parse(text).unwrap_err();
    assert!(error.contains(expected), "{error}");
}

/// An operator may paste the token instead of its hash, or at another wrong place.
#[rstest]
#[case(
    "[[token]]\nname='ann'\nproject='p'\nroles=[]\nsha256='mst_secret'",
    "sha256 of the token 'ann' is not a hash"
)]
#[case("[[token]]\nname='ann'\nproject='p'\nroles='mst_secret'\nsha256=''", "line 4: expected a sequence")]
#[case("[[token]]\nname='ann'\nproject='p'\nroles=[]\nsha256=mst_secret", "line 5: ")]
#[case("token = 'mst_secret'", "line 1: expected a sequence")]
fn the_error_of_a_tokens_file_names_the_entry_and_not_its_value(#[case] text: &str, #[case] expected: &str) {
    let error = TokensFile::parse(text).unwrap_err();
    assert!(error.contains(expected) && !error.contains("mst_secret"), "{error}");
}

#[tokio::test]
async fn a_token_of_another_scheme_passes_the_accounts() {
    let dir = tempfile::tempdir().unwrap();
    let (accounts, tokens) = (dir.path().join("accounts.toml"), dir.path().join("tokens.toml"));
    fs::write(&accounts, "").unwrap();
    let token = new_token().unwrap();
    fs::write(&tokens, entry("bob", Role::Reader, &token)).unwrap();
    let accounts = Accounts::open(&accounts, || Timestamp::from_micros(1)).unwrap();
    accounts.sign_with("k");
    let chain = Authenticators::new()
        .with(accounts)
        .with(Local::open(dir.path(), user()).unwrap())
        .with(Tokens::open(&tokens).unwrap());
    assert_eq!(identify(&chain, Some(&token)).await.unwrap().name, "bob");
    let local = Local::read_token(dir.path()).unwrap();
    assert_eq!(identify(&chain, Some(&local)).await.unwrap().name, "ada");
    let forged = identify(&chain, Some("mst_forged")).await.unwrap_err().to_string();
    assert!(forged.contains("not valid (authentication schemes: accounts, local, tokens)"), "{forged}");
}

#[tokio::test]
async fn schemes_are_tried_in_order_and_an_unknown_caller_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens.toml");
    fs::write(&path, entry("bob", Role::Reader, "t")).unwrap();
    let chain = Authenticators::new()
        .with(Local::open(dir.path(), user()).unwrap())
        .with(Tokens::open(&path).unwrap());
    assert_eq!(chain.schemes(), ["local", "tokens"]);
    assert_eq!(identify(&chain, Some("t")).await.unwrap().name, "bob");
    let none = identify(&chain, None).await.unwrap_err().to_string();
    assert!(none.contains("credentials are needed"), "{none}");
    let wrong = identify(&chain, Some("Bearer wrong")).await.unwrap_err().to_string();
    assert!(wrong.contains("not valid (authentication schemes: local, tokens)"), "{wrong}");
    assert!(!wrong.contains("Bearer"), "{wrong}");
}
