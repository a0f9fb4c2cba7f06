//! The port that sends webhooks before nodes are removed.

use async_trait::async_trait;
use serde_json::Value;

/// Sends webhooks.
#[async_trait]
pub trait Webhooks: Send + Sync {
    /// Checks, before a policy is accepted, whether a URL may be called at all; the error says why not.
    fn check_hook(&self, _url: &str) -> Result<(), String> {
        Ok(())
    }

    /// Posts a message; the error says why it was not delivered, and the caller retries. Implementations set their own
    /// timeout.
    async fn post(&self, url: &str, message: &Value) -> Result<(), String>;
}

/// Refuses all webhooks.
pub struct NoWebhooks;

#[async_trait]
impl Webhooks for NoWebhooks {
    async fn post(&self, _: &str, _: &Value) -> Result<(), String> {
        Err("this server does not send webhooks".to_owned())
    }
}
