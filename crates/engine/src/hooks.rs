//! The port by which others are told that a node is about to go.

use async_trait::async_trait;
use serde_json::Value;

/// Tells somebody outside something.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// Posts a message; an error says why it did not arrive, and it is posted again in a while.
    async fn post(&self, url: &str, message: &Value) -> Result<(), String>;
}

/// Where nobody can be told anything.
pub struct Nowhere;

#[async_trait]
impl Hooks for Nowhere {
    async fn post(&self, url: &str, _: &Value) -> Result<(), String> {
        Err(format!("nothing is sent from here, so {url} hears nothing"))
    }
}
