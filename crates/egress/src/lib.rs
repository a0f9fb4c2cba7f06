//! All HTTP requests that the server sends by itself: webhooks, poll URLs, and requests to Domino.
//!
//! Users name the URLs of webhooks and polls, while the server may be behind a firewall, or beside services that
//! trust every program of their machine. These requests therefore obey one rule about the addresses that they may
//! reach. The rule does not apply to Domino, whose address is in the configuration.
//!
//! Requests to the heads of clusters are in `muster-framework-client`, and those to Kubernetes in `muster-kube`.
//! Begin reading at [`Egress`] (webhooks and polls), [`EgressRule`] (the addresses) and [`Domino`].

mod destination;
mod domino;
mod poll;
mod read;
mod rule;
mod webhook;

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder};

pub use domino::Domino;
pub use rule::{EgressRule, Network};

use destination::{EgressRefused, GuardedResolver, admit};

/// The largest number of redirects that are followed.
const REDIRECTS: usize = 5;

/// The time limit for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of idle connections to one host, and the time after which they are closed.
const IDLE_CONNECTIONS: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// The HTTP client could not be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create an HTTP client: {0}")]
pub struct ClientError(String);

/// Sends webhooks and polls URLs.
pub struct Egress {
    rule: Arc<EgressRule>,
    /// The client for webhooks, which follows no redirects.
    webhooks: Client,
    /// The client for polls, which follows redirects.
    polls: Client,
    /// The client for polls that do not verify certificates.
    unverified_polls: Client,
}

impl Egress {
    /// Creates clients that obey this rule.
    pub fn new(rule: EgressRule) -> Result<Self, ClientError> {
        let rule = Arc::new(rule);
        let redirects = || {
            let rule = Arc::clone(&rule);
            Policy::custom(move |attempt| follow(&rule, attempt))
        };
        Ok(Self {
            webhooks: guarded(&rule, |builder| builder.redirect(Policy::none()))?,
            polls: guarded(&rule, |builder| builder.redirect(redirects()))?,
            unverified_polls: guarded(&rule, |builder| {
                builder.redirect(redirects()).tls_danger_accept_invalid_certs(true)
            })?,
            rule,
        })
    }
}

/// Resolves a host, so that its addresses can be closed to webhooks; empty if the name cannot be resolved.
pub async fn addresses(host: &str) -> Vec<IpAddr> {
    match tokio::net::lookup_host((host, 0)).await {
        Ok(found) => found.map(|address| address.ip()).collect(),
        Err(error) => {
            tracing::warn!(host, %error, "cannot close this host to webhooks: its name cannot be resolved");
            Vec::new()
        }
    }
}

/// Creates a client that connects only to addresses that the rule allows.
fn guarded(
    rule: &Arc<EgressRule>,
    more: impl Fn(ClientBuilder) -> ClientBuilder,
) -> Result<Client, ClientError> {
    client(|builder| {
        let guard = GuardedResolver { rule: Arc::clone(rule) };
        // No proxy is used, because it would connect without checking the rule.
        more(builder).no_proxy().dns_resolver(Arc::new(guard))
    })
}

/// Creates a client with a bounded pool of idle connections and a time limit for connecting.
fn client(more: impl Fn(ClientBuilder) -> ClientBuilder) -> Result<Client, ClientError> {
    let builder = || {
        let builder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .referer(false)
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")));
        more(builder)
    };
    let client = builder().build().or_else(|error| {
        let why = reason(&error);
        tracing::warn!(why, "no certificates of authorities are installed: requests to https URLs will fail");
        builder().tls_certs_only([]).build()
    });
    client.map_err(|error| ClientError(reason(&error)))
}

/// Checks every redirect like the first URL, so that a redirect cannot evade the rule.
fn follow(rule: &EgressRule, attempt: Attempt<'_>) -> reqwest::redirect::Action {
    if attempt.previous().len() > REDIRECTS {
        return attempt.error(format!("more than {REDIRECTS} redirects"));
    }
    match admit(rule, attempt.url().as_str()) {
        Ok(_) => attempt.follow(),
        Err(refused) => attempt.error(refused),
    }
}

/// The refusal of the rule that caused an error, if one did.
fn refusal(error: &reqwest::Error) -> Option<&EgressRefused> {
    causes(error).find_map(|cause| cause.downcast_ref::<EgressRefused>())
}

/// The last cause of an error; those before it only name the step that failed, with the URL and its secrets.
fn reason(error: &reqwest::Error) -> String {
    let last = causes(error).last().map(ToString::to_string).unwrap_or_default();
    if error.is_timeout() { "it did not respond in time".to_owned() } else { last }
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

#[cfg(test)]
mod tests;
