//! What goes out of the server by itself: hooks that are told, nodes that are asked by URL.
//!
//! Users say where to, and the server stands where users do not: behind a firewall, beside services that trust whoever
//! is on their machine. So all of it goes through here, and one rule says where it may go.

mod destination;
mod hook;
mod poll;
mod rule;

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder};

pub(super) use rule::{Network, Rule};

use destination::{Guard, Refused, admit};

/// Places that a question may be sent on to.
const HOPS: usize = 5;

/// How long a connection may take to be made, whatever comes after.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Connections that are kept for the next time, and for how long: whoever is asked rarely is asked anew.
const KEPT: usize = 4;
const KEPT_FOR: Duration = Duration::from_secs(15);

/// The way out.
pub(super) struct Egress {
    rule: Arc<Rule>,
    /// For hooks: a message is for whom it was sent to, and for nobody else.
    messages: Client,
    /// For questions, which may be sent on to another place.
    questions: Client,
    /// For questions where certificates do not count.
    trusting: Client,
}

impl Egress {
    pub(super) fn new(rule: Rule) -> Result<Self> {
        let rule = Arc::new(rule);
        let sent_on = || {
            let rule = Arc::clone(&rule);
            Policy::custom(move |attempt| follow(&rule, attempt))
        };
        Ok(Self {
            messages: client(&rule, |builder| builder.redirect(Policy::none()))?,
            questions: client(&rule, |builder| builder.redirect(sent_on()))?,
            trusting: client(&rule, |builder| {
                builder.redirect(sent_on()).tls_danger_accept_invalid_certs(true)
            })?,
            rule,
        })
    }
}

/// The addresses of a host; none if its name cannot be resolved.
pub(super) async fn addresses(host: &str) -> Vec<IpAddr> {
    match tokio::net::lookup_host((host, 0)).await {
        Ok(found) => found.map(|address| address.ip()).collect(),
        Err(error) => {
            tracing::warn!(host, %error, "cannot close this host to webhooks: its name cannot be resolved");
            Vec::new()
        }
    }
}

/// A client that connects only where the rule says, by the address that it really connects to.
fn client(rule: &Arc<Rule>, more: impl Fn(ClientBuilder) -> ClientBuilder) -> Result<Client> {
    let builder = || {
        let guard = Guard { rule: Arc::clone(rule) };
        more(Client::builder())
            // A proxy would connect in our place, and does not know the rule.
            .no_proxy()
            .dns_resolver(Arc::new(guard))
            .connect_timeout(CONNECT_WITHIN)
            .pool_max_idle_per_host(KEPT)
            .pool_idle_timeout(KEPT_FOR)
            .referer(false)
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
    };
    builder()
        .build()
        .or_else(|error| {
            let why = reason(&error);
            tracing::warn!(why, "this machine has no certificates of authorities: no https URL is trusted");
            builder().tls_certs_only([]).build()
        })
        .context("cannot make the client for hooks and poll URLs")
}

/// Each place on the way is looked at as the first one was.
fn follow(rule: &Rule, attempt: Attempt<'_>) -> reqwest::redirect::Action {
    if attempt.previous().len() > HOPS {
        return attempt.error(format!("it was sent on more than {HOPS} times"));
    }
    match admit(rule, attempt.url().as_str()) {
        Ok(_) => attempt.follow(),
        Err(refused) => attempt.error(refused),
    }
}

/// What stands behind an error, if it is that the rule forbids it.
fn refusal(error: &reqwest::Error) -> Option<&Refused> {
    causes(error).find_map(|cause| cause.downcast_ref::<Refused>())
}

/// The last cause of an error: those before it say only at which step it happened, with the URL and its secrets.
fn reason(error: &reqwest::Error) -> String {
    let last = causes(error).last().map(ToString::to_string).unwrap_or_default();
    if error.is_timeout() { "it took too long".to_owned() } else { last }
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

#[cfg(test)]
mod tests;
