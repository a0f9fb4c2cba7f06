//! Tokens that only we can make: what comes back is what was given, for the same purpose.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use subtle::ConstantTimeEq as _;

/// Bytes of a signature: as many as nobody can try.
const SIGNATURE: usize = 16;

/// Signs tokens with the database's key, so that they are good on every replica and after a restart.
pub(crate) struct Seal(hmac::Key);

impl Seal {
    pub(crate) fn new(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// A token that carries something, good for one purpose only.
    pub(crate) fn close(&self, purpose: &str, carried: &[u8]) -> String {
        let mut token = self.sign(purpose, carried).to_vec();
        token.extend_from_slice(carried);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// What a token carries; nothing if it was not made here for this purpose.
    pub(crate) fn open(&self, purpose: &str, token: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (signature, carried) = bytes.split_at_checked(SIGNATURE)?;
        let good: bool = self.sign(purpose, carried).ct_eq(signature).into();
        good.then(|| carried.to_vec())
    }

    fn sign(&self, purpose: &str, carried: &[u8]) -> [u8; SIGNATURE] {
        let mut context = hmac::Context::with_key(&self.0);
        // With the length in front, no purpose can run over into what is carried.
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
        let seal = Seal::new("k");
        let token = seal.close("list", b"here");
        assert_eq!(seal.open("list", &token).as_deref(), Some(&b"here"[..]));
        assert_eq!(seal.open("lis", &seal.close("list", b"t")), None);
        assert_eq!(Seal::new("other").open("list", &token), None, "another database's");
    }

    #[test]
    fn a_token_that_was_changed_anywhere_is_none() {
        let seal = Seal::new("k");
        let token = seal.close("list", b"here");
        for place in 0..token.len() {
            let mut edited = token.clone().into_bytes();
            edited[place] = if edited[place] == b'A' { b'B' } else { b'A' };
            assert_eq!(seal.open("list", &String::from_utf8(edited).unwrap()), None, "byte {place}");
        }
        for short in ["", "e30", "gibberish!"] {
            assert_eq!(seal.open("list", short), None);
        }
    }
}
