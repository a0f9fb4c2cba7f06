//! Creates, hashes and compares tokens.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use subtle::ConstantTimeEq as _;

/// 256 bits, which cannot be guessed.
const TOKEN_BYTES: usize = 32;

/// The prefix of the tokens of all of Muster's own schemes. Secret scanners find leaked tokens by it, and schemes that ask
/// other services do not forward tokens with it.
pub(super) const PREFIX: &str = "mst_";

/// Creates a random token.
pub fn new_token() -> std::io::Result<String> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| std::io::Error::other("the system gives no random bytes for a token"))?;
    Ok(format!("{PREFIX}{}", hex(&bytes)))
}

/// Returns the SHA-256 of a token in hexadecimal digits, as a tokens file contains it.
pub fn hash(token: &str) -> String {
    hex(digest(&SHA256, token.as_bytes()).as_ref())
}

/// Returns true if two hashes are equal, in constant time: the time does not reveal where they differ.
pub(super) fn same_hash(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
