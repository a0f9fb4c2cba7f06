//! Scheme `accounts:FILE`: names and passwords, for clients that log in and receive a token.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordVerifier as _};
use async_trait::async_trait;
use muster_core::principal::{Principal, Role};
use muster_core::time::{TimeSpan, Timestamp};
use muster_service::TokenSigner;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use super::reloaded_file::{ReloadedFile, parse_toml};
use super::secret::PREFIX;
use super::{AuthError, Authenticator, UnauthenticatedCaller, named_principal};

/// The time for which a token is valid.
pub const TOKEN_LIFE: TimeSpan = TimeSpan::from_secs(24 * 3600);

/// The purpose that tokens are signed for.
const PURPOSE: &str = "account token";

/// The prefix of a password in plain text.
const PLAIN: &str = "plain:";

/// The file: one `[[account]]` for each account.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountsFile {
    /// The accounts.
    #[serde(default)]
    pub account: Vec<Account>,
}

/// One account of the file.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// The name; unique in the file.
    pub name: String,
    /// An Argon2 hash, or `plain:` and the password itself.
    pub password: String,
    /// The project that the account acts in.
    pub project: String,
    /// The roles in that project.
    pub roles: BTreeSet<Role>,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, password: _, project, roles } = self;
        f.debug_struct("Account").field("name", name).field("project", project).field("roles", roles).finish()
    }
}

impl Account {
    /// Returns the hash of the password; none if the file contains the password itself.
    fn hash(&self) -> Option<PasswordHash> {
        PasswordHash::new(&self.password).ok().filter(|_| !self.password.starts_with(PLAIN))
    }

    fn principal(&self) -> Principal {
        named_principal(SCHEME, &self.name, &self.project, &self.roles)
    }
}

/// Returns true if the hash is the hash of the password.
fn verify(password: &str, hash: &PasswordHash) -> bool {
    Argon2::default().verify_password(password.as_bytes(), hash).is_ok()
}

/// The scheme's name.
const SCHEME: &str = "accounts";

impl AccountsFile {
    /// Parses the text of a file; the error is one sentence and contains no password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self = parse_toml(text)?;
        let mut names = BTreeSet::new();
        for account in &file.account {
            let name = &account.name;
            if name.is_empty() || !names.insert(name) {
                return Err(format!("'{name}' is the name of two accounts, or empty: give each its own"));
            }
            if !account.password.starts_with(PLAIN) && PasswordHash::new(&account.password).is_err() {
                return Err(format!(
                    "the password of account '{name}' is not an Argon2 hash: write one, or '{PLAIN}' and the password"
                ));
            }
        }
        Ok(file)
    }

    fn find(&self, name: &str) -> Option<&Account> {
        self.account.iter().find(|account| account.name == name)
    }

    /// Returns true if this is the account's password.
    fn is_password_of(&self, account: &Account, password: &str) -> bool {
        match account.password.strip_prefix(PLAIN) {
            Some(plain) => {
                self.hash_in_vain(password);
                plain.as_bytes().ct_eq(password.as_bytes()).into()
            }
            None => account.hash().is_some_and(|hash| verify(password, &hash)),
        }
    }

    /// Hashes a password and drops the result, so that refusing an unknown name takes as long as refusing a wrong
    /// password. Uses the parameters of the file's hashes, which determine that time.
    fn hash_in_vain(&self, password: &str) {
        #[cfg(test)]
        tests::HASHED_IN_VAIN.set(tests::HASHED_IN_VAIN.get() + 1);
        if let Some(hash) = self.account.iter().find_map(Account::hash) {
            std::hint::black_box(verify(password, &hash));
            return;
        }
        let mut digest = [0; 32];
        // The parameters are valid, so this does not fail.
        let hashed =
            Argon2::default().hash_password_into(password.as_bytes(), b"no account's salt", &mut digest);
        std::hint::black_box((hashed.is_ok(), digest));
    }
}

/// A session of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// The token that authenticates further requests.
    pub token: String,
    /// The account as a principal.
    pub principal: Principal,
    /// The time when the token was issued.
    pub issued_at: Timestamp,
    /// The time when the token expires.
    pub expires_at: Timestamp,
}

/// The content of a token.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    name: String,
    until: i64,
    /// A digest of the account's password when the token was issued: a changed password invalidates the token.
    password: String,
}

/// The purpose of digests of passwords.
const PASSWORD: &str = "account password";

/// Authenticates by the accounts of a file, which is reloaded when it changes; signs and verifies their tokens.
pub struct Accounts {
    file: ReloadedFile<AccountsFile>,
    /// Signs tokens. Every log-in is refused until the key is set.
    signer: OnceLock<TokenSigner>,
    now: fn() -> Timestamp,
}

impl Accounts {
    /// Reads a file, which has to exist and be valid.
    pub fn open(path: &Path, now: fn() -> Timestamp) -> io::Result<Self> {
        let file = ReloadedFile::open(path, "accounts", AccountsFile::parse)?;
        Ok(Self { file, signer: OnceLock::new(), now })
    }

    /// Sets the key that signs tokens. With the key in the database, tokens are valid on every replica.
    pub fn sign_with(&self, token_key: &str) {
        self.signer.get_or_init(|| TokenSigner::new(token_key));
    }

    /// Starts a session in the account's own project; none if name, password or project do not match.
    pub fn log_in(&self, name: &str, password: &str, project: Option<&str>) -> Option<LoggedIn> {
        let file = self.file.current();
        let Some(account) = file.find(name) else {
            file.hash_in_vain(password);
            return None;
        };
        let fits = project.is_none_or(|project| project == account.project);
        if !file.is_password_of(account, password) || !fits {
            return None;
        }
        let signer = self.signer.get()?;
        let issued_at = (self.now)();
        let expires_at = issued_at.after(TOKEN_LIFE);
        let claims = Claims {
            name: account.name.clone(),
            until: expires_at.micros(),
            password: signer.digest(PASSWORD, account.password.as_bytes()),
        };
        let carried = serde_json::to_vec(&claims).unwrap_or_default();
        let token = format!("{PREFIX}{}", signer.sign(PURPOSE, &carried));
        Some(LoggedIn { token, principal: account.principal(), issued_at, expires_at })
    }
}

#[async_trait]
impl Authenticator for Accounts {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    async fn authenticate(&self, caller: UnauthenticatedCaller<'_>) -> Result<Option<Principal>, AuthError> {
        let Some(sealed) = caller.token().and_then(|token| token.strip_prefix(PREFIX)) else {
            return Ok(None);
        };
        let verified = self.signer.get().and_then(|signer| {
            let carried = signer.verify(PURPOSE, sealed)?;
            Some((signer, serde_json::from_slice::<Claims>(&carried).ok()?))
        });
        // Tokens of other schemes have the same prefix, so a token without a valid signature may be one of theirs.
        let Some((signer, claims)) = verified else { return Ok(None) };
        let refused = |why: &str| AuthError::Refused(format!("{why}: log in again"));
        if claims.until <= (self.now)().micros() {
            return Err(refused("the token has expired"));
        }
        let file = self.file.current();
        let account = file.find(&claims.name).ok_or_else(|| refused("the account no longer exists"))?;
        if signer.digest(PASSWORD, account.password.as_bytes()) != claims.password {
            return Err(refused("the password of the account has changed"));
        }
        Ok(Some(account.principal()))
    }

    async fn resolve(&self, known: &Principal) -> Result<Option<Principal>, AuthError> {
        Ok(self.file.current().find(&known.id).map(Account::principal))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    const FILE: &str = r#"
        [[account]]
        name = "demo"
        password = "plain:secret"
        project = "p"
        roles = ["member"]
    "#;

    thread_local! {
        pub(super) static HASHED_IN_VAIN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }

    #[test]
    fn a_name_that_does_not_exist_takes_as_much_work_as_a_wrong_password() {
        let accounts = accounts(at_noon);
        assert!(accounts.log_in("unknown", "secret", None).is_none());
        assert!(accounts.log_in("demo", "wrong", None).is_none());
        assert_eq!(HASHED_IN_VAIN.get(), 2, "plain passwords need no hash either");
    }

    fn at_noon() -> Timestamp {
        Timestamp::from_micros(12)
    }

    fn much_later() -> Timestamp {
        at_noon().after(TOKEN_LIFE).after(TimeSpan::from_secs(1))
    }

    fn opened(path: &Path, now: fn() -> Timestamp) -> Accounts {
        let accounts = Accounts::open(path, now).expect("a right file");
        accounts.sign_with("k");
        accounts
    }

    /// Opens accounts whose file is deleted at once: the accounts that were read stay valid.
    fn accounts(now: fn() -> Timestamp) -> Accounts {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), FILE).expect("a file of accounts");
        opened(file.path(), now)
    }

    async fn who(accounts: &Accounts, token: &str) -> Result<Option<Principal>, AuthError> {
        let mut headers = HeaderMap::new();
        headers.insert("x-auth-token", token.parse().unwrap());
        accounts.authenticate(UnauthenticatedCaller { headers: &headers }).await
    }

    #[tokio::test]
    async fn an_account_is_authenticated_by_its_token_until_that_expires() {
        let logged_in = accounts(at_noon).log_in("demo", "secret", Some("p")).unwrap();
        let known = who(&accounts(at_noon), &logged_in.token).await.unwrap().unwrap();
        assert_eq!((known.id.as_str(), known.project.as_str()), ("demo", "p"));
        assert!(who(&accounts(much_later), &logged_in.token).await.is_err());
        assert_eq!(who(&accounts(at_noon), "mst_forged").await.unwrap(), None, "perhaps another scheme's");
        assert_eq!(who(&accounts(at_noon), "another-scheme's").await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_change_of_the_file_counts_from_the_next_request_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("accounts.toml");
        std::fs::write(&path, FILE).unwrap();
        let accounts = opened(&path, at_noon);
        let token = accounts.log_in("demo", "secret", None).unwrap().token;

        std::fs::write(&path, FILE.replace("member", "reader")).unwrap();
        let known = who(&accounts, &token).await.unwrap().unwrap();
        assert_eq!(known.roles, [Role::Reader].into());

        std::fs::write(&path, FILE.replace("secret", "changed")).unwrap();
        assert!(accounts.log_in("demo", "secret", None).is_none());
        let why = who(&accounts, &token).await.unwrap_err().to_string();
        assert_eq!(why, "the password of the account has changed: log in again");
        let token = accounts.log_in("demo", "changed", None).unwrap().token;

        std::fs::write(&path, "[[account").unwrap();
        assert!(who(&accounts, &token).await.is_ok(), "while the file is wrong the last one holds");

        std::fs::write(&path, FILE.replace("demo", "other")).unwrap();
        let why = who(&accounts, &token).await.unwrap_err().to_string();
        assert_eq!(why, "the account no longer exists: log in again");
        assert!(accounts.log_in("demo", "secret", None).is_none());
        assert!(accounts.log_in("other", "secret", None).is_some());
    }

    #[test]
    fn wrong_names_passwords_and_projects_are_refused() {
        let accounts = accounts(at_noon);
        assert!(accounts.log_in("demo", "wrong", None).is_none());
        assert!(accounts.log_in("stranger", "secret", None).is_none());
        assert!(accounts.log_in("demo", "secret", Some("other")).is_none());
        assert!(accounts.log_in("demo", "secret", None).is_some());
    }

    #[test]
    fn a_bad_file_is_named_without_its_passwords() {
        let why = AccountsFile::parse(&FILE.replace("plain:secret", "hunter2")).unwrap_err();
        assert!(why.contains("account 'demo'") && !why.contains("hunter2"), "{why}");
        assert!(AccountsFile::parse(&format!("{FILE}{FILE}")).unwrap_err().contains("two accounts"));
        assert!(!format!("{:?}", AccountsFile::parse(FILE).unwrap()).contains("secret"));
    }
}
