//! Webhooks: a POST request asks the receiver of a lifecycle hook to confirm the deletion of a node.

use std::time::Duration;

use async_trait::async_trait;
use muster_engine::ports::webhook::Webhooks;
use serde_json::Value;

use crate::destination::{admit, origin};
use crate::{Egress, reason, refusal};

/// The time limit of one message; the engine retries a message that failed.
const WITHIN: Duration = Duration::from_secs(10);

#[async_trait]
impl Webhooks for Egress {
    fn check_hook(&self, url: &str) -> Result<(), String> {
        admit(&self.rule, url).map(drop).map_err(|refused| refused.to_string())
    }

    async fn post(&self, url: &str, message: &Value) -> Result<(), String> {
        let url = admit(&self.rule, url).map_err(|refused| refused.to_string())?;
        let origin = origin(&url);
        // The body is not read, because only the status counts.
        let response = self.webhooks.post(url).json(message).timeout(WITHIN).send().await;
        match response {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => {
                Err(format!("{origin} responded with {}: a status of 2xx is expected", answer.status()))
            }
            Err(error) => Err(match refusal(&error) {
                Some(refused) => refused.to_string(),
                None => format!("{origin} cannot be reached: {}", reason(&error)),
            }),
        }
    }
}
