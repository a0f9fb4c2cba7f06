//! The port through which health policies poll nodes by URL.

use async_trait::async_trait;
use muster_core::policy::health::PollUrl;

/// The result of polling a node's URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollResult {
    /// The node answered as a healthy node does.
    Healthy,
    /// The node answered something else; the message says what.
    Unhealthy(String),
    /// The node was unreachable; the message says why.
    Unreachable(String),
    /// An egress rule forbids the request: the node's health is unknown.
    NotAllowed,
}

/// Polls nodes by URL.
#[async_trait]
pub trait Probe: Send + Sync {
    /// Checks, before a policy is accepted, whether such a URL may be polled at all; the error says why not.
    fn check_poll(&self, _url: &str, _options: &PollUrl) -> Result<(), String> {
        Ok(())
    }

    /// Polls once, and searches the policy's pattern in the response. Implementations set their own timeout.
    async fn poll(&self, url: &str, options: &PollUrl) -> PollResult;
}
