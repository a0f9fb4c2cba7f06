//! The port by which others are told that a node is about to go.

use async_trait::async_trait;
use serde_json::Value;

/// Tells somebody outside something.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// Looks whether anything could be sent there at all, before a policy says so; the sentence says why not.
    fn check_hook(&self, _url: &str) -> Result<(), String> {
        Ok(())
    }

    /// Posts a message; an error says why it did not arrive, and it is posted again in a while. It bounds its own time.
    async fn post(&self, url: &str, message: &Value) -> Result<(), String>;
}

/// Where nobody can be told anything.
pub struct Nowhere;

#[async_trait]
impl Hooks for Nowhere {
    async fn post(&self, _: &str, _: &Value) -> Result<(), String> {
        Err("nothing is sent from here".to_owned())
    }
}
