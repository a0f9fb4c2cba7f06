//! Checks URLs and resolved addresses against the egress rule.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::rule::EgressRule;

/// The reason why no request is sent to a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EgressRefused {
    /// The text is not a URL that can be requested.
    #[error(
        "'{0}' cannot be called: a URL that begins with http:// or https:// and names a host is expected"
    )]
    NoUrl(String),
    /// The rule forbids the address.
    #[error("this server does not connect to {host} ({address}): an admin can allow that by 'egress_allow'")]
    Closed { host: String, address: IpAddr },
}

/// Parses a URL, and refuses one that cannot be requested or names a forbidden address. A host name is checked when
/// it is resolved.
pub(crate) fn admit(rule: &EgressRule, text: &str) -> Result<Url, EgressRefused> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let no_url = || EgressRefused::NoUrl(without_secrets(text));
    let url = url.ok_or_else(no_url)?;
    let host = url.host_str().ok_or_else(no_url)?;
    match host.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(address) if !rule.allows(address) => Err(EgressRefused::Closed { host: host.to_owned(), address }),
        _ => Ok(url),
    }
}

/// The origin of a URL for messages, because its path may contain a secret.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The part of an invalid URL that messages may show: without credentials, query and fragment.
fn without_secrets(text: &str) -> String {
    const SHOWN: usize = 40;
    let host = text.rsplit('@').next().unwrap_or_default();
    host.split(['?', '#']).next().unwrap_or_default().chars().take(SHOWN).collect()
}

/// Resolves names, and returns only addresses that the rule allows. The client connects to exactly these addresses,
/// so that a second resolution with another result cannot evade the rule.
pub(crate) struct GuardedResolver {
    pub(crate) rule: Arc<EgressRule>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rule = Arc::clone(&self.rule);
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let (open, closed): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|address| rule.allows(address.ip()));
            match closed.first().filter(|_| open.is_empty()) {
                Some(address) => Err(EgressRefused::Closed { host, address: address.ip() }.into()),
                None => Ok(Box::new(open.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://127.0.0.1/x")]
    #[case("http://127.1:8080/")]
    #[case("http://0x7f000001/")]
    #[case("http://2130706433/")]
    #[case("https://[::1]/")]
    #[case("http://[::ffff:127.0.0.1]:80/")]
    #[case("http://user:secret@169.254.169.254/latest/meta-data")]
    fn an_address_is_recognized_in_every_notation(#[case] url: &str) {
        let refused = admit(&EgressRule::new(&[], &[], false), url).unwrap_err();
        assert!(matches!(refused, EgressRefused::Closed { .. }), "{refused}");
        assert!(admit(&EgressRule::new(&[], &[], true), url).is_ok());
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }

    #[rstest]
    #[case("file:///etc/passwd")]
    #[case("ftp://example.org/")]
    #[case("unix:/run/x.sock")]
    #[case("example.org")]
    #[case("http://")]
    #[case("")]
    fn only_http_urls_are_requested(#[case] url: &str) {
        let refused = admit(&EgressRule::new(&[], &[], true), url).unwrap_err();
        assert_eq!(refused, EgressRefused::NoUrl(url.to_owned()));
    }

    #[test]
    fn messages_about_urls_hold_no_secrets() {
        let url = Url::parse("https://ann:secret@example.org/secret?token=secret").unwrap();
        assert_eq!(origin(&url), "https://example.org");
        assert_eq!(without_secrets("ann:secret@example.org?token=secret"), "example.org");
    }

    #[tokio::test]
    async fn a_name_is_refused_if_its_addresses_are() {
        let resolve = async |dev: bool| {
            let guard = GuardedResolver { rule: Arc::new(EgressRule::new(&[], &[], dev)) };
            guard.resolve("localhost".parse().expect("a name")).await.map(Iterator::count)
        };
        let refused = resolve(false).await.unwrap_err();
        assert!(refused.downcast_ref::<EgressRefused>().is_some(), "{refused}");
        assert!(resolve(true).await.unwrap() > 0);
    }
}
