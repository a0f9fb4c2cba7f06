//! Scheme `tokens:FILE`: bearer tokens whose hashes are listed in a file.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use async_trait::async_trait;
use muster_core::principal::{Principal, Role};
use serde::{Deserialize, Serialize};

use super::reloaded_file::{ReloadedFile, parse_toml};
use super::secret::{hash, same_hash};
use super::{AuthError, Authenticator, UnauthenticatedCaller, named_principal};

/// The scheme's name.
const SCHEME: &str = "tokens";

const HASH_DIGITS: usize = 64;

/// The file: one `[[token]]` for each token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokensFile {
    /// The tokens.
    #[serde(default)]
    pub token: Vec<TokenEntry>,
}

/// One token of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// The name of the token's user; unique in the file.
    pub name: String,
    /// The project that the user acts in.
    pub project: String,
    /// The roles in that project.
    pub roles: BTreeSet<Role>,
    /// The SHA-256 of the token, in hexadecimal digits.
    pub sha256: String,
}

impl TokenEntry {
    fn principal(&self) -> Principal {
        named_principal(SCHEME, &self.name, &self.project, &self.roles)
    }
}

impl TokensFile {
    /// Parses the text of a file; the error is one sentence and contains no token.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self = parse_toml(text)?;
        let mut names = BTreeSet::new();
        for entry in &file.token {
            if entry.name.is_empty() || !names.insert(&entry.name) {
                return Err(format!(
                    "'{}' is the name of two tokens, or empty: give each its own",
                    entry.name
                ));
            }
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if entry.sha256.len() != HASH_DIGITS || !entry.sha256.bytes().all(is_digit) {
                // Without the value, since that may be the token itself.
                return Err(format!(
                    "sha256 of the token '{}' is not a hash: must have {HASH_DIGITS} hexadecimal digits in lower case",
                    entry.name
                ));
            }
        }
        Ok(file)
    }
}

/// Authenticates callers by the tokens of a file, which is reloaded when it changes.
#[derive(Debug)]
pub struct Tokens(ReloadedFile<TokensFile>);

impl Tokens {
    /// Reads a file, which has to exist and be valid.
    pub fn open(path: &Path) -> io::Result<Self> {
        ReloadedFile::open(path, "tokens", TokensFile::parse).map(Self)
    }
}

#[async_trait]
impl Authenticator for Tokens {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    async fn authenticate(&self, caller: UnauthenticatedCaller<'_>) -> Result<Option<Principal>, AuthError> {
        let Some(token) = caller.token() else { return Ok(None) };
        let (given, file) = (hash(token), self.0.current());
        // Compare with every entry, so that the time does not reveal the position of a match.
        let matching = file
            .token
            .iter()
            .fold(None, |found, entry| if same_hash(&given, &entry.sha256) { Some(entry) } else { found });
        Ok(matching.map(TokenEntry::principal))
    }

    async fn resolve(&self, known: &Principal) -> Result<Option<Principal>, AuthError> {
        let file = self.0.current();
        Ok(file.token.iter().find(|entry| entry.name == known.id).map(TokenEntry::principal))
    }
}
