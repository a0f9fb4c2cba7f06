//! Signs tokens that clients return: page tokens, positions of watches, sessions.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use subtle::ConstantTimeEq as _;

/// The length of a signature in bytes, which is too long to guess.
const SIGNATURE: usize = 16;

/// Signs and verifies tokens. With the key of the database, they are valid on every replica and after a restart.
pub struct TokenSigner(hmac::Key);

impl TokenSigner {
    /// Creates a signer with a secret as its key.
    pub fn new(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// Signs a payload for one purpose, and returns the token.
    pub fn sign(&self, purpose: &str, carried: &[u8]) -> String {
        let mut token = self.signature(purpose, carried).to_vec();
        token.extend_from_slice(carried);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// The payload of a token; none if it was not signed with this key for this purpose.
    pub fn verify(&self, purpose: &str, token: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (signature, carried) = bytes.split_at_checked(SIGNATURE)?;
        let good: bool = self.signature(purpose, carried).ct_eq(signature).into();
        good.then(|| carried.to_vec())
    }

    /// A digest of a secret, which reveals nothing about the secret without the key.
    pub fn digest(&self, purpose: &str, secret: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(self.signature(purpose, secret))
    }

    fn signature(&self, purpose: &str, carried: &[u8]) -> [u8; SIGNATURE] {
        let mut context = hmac::Context::with_key(&self.0);
        // The length in front keeps apart the end of the purpose and the beginning of the payload.
        context.update(&(purpose.len() as u64).to_be_bytes());
        context.update(purpose.as_bytes());
        context.update(carried);
        let mut signature = [0; SIGNATURE];
        signature.copy_from_slice(&context.sign().as_ref()[..SIGNATURE]);
        signature
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_whole_and_for_its_purpose_only() {
        let signer = TokenSigner::new("k");
        let token = signer.sign("list", b"here");
        assert_eq!(signer.verify("list", &token).as_deref(), Some(&b"here"[..]));
        assert_eq!(signer.verify("lis", &signer.sign("list", b"t")), None);
        assert_eq!(TokenSigner::new("other").verify("list", &token), None, "another database's");
    }

    #[test]
    fn a_token_that_was_changed_anywhere_is_none() {
        let signer = TokenSigner::new("k");
        let token = signer.sign("list", b"here");
        for place in 0..token.len() {
            let mut edited = token.clone().into_bytes();
            edited[place] = if edited[place] == b'A' { b'B' } else { b'A' };
            assert_eq!(signer.verify("list", &String::from_utf8(edited).unwrap()), None, "byte {place}");
        }
        for short in ["", "e30", "gibberish!"] {
            assert_eq!(signer.verify("list", short), None);
        }
    }
}
