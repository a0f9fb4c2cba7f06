//! Sends hook messages and retries until they are delivered.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use muster_core::ids::ActionId;
use serde_json::Value;
use tokio::time::Instant;

use crate::context::Context;

/// Limits concurrent requests: the receiver of a thousand messages must not get a thousand requests at once.
const MAX_IN_FLIGHT: usize = 8;

/// The most distinct failures of one action that become events.
const MAX_REPORTED: usize = 8;

/// Posts the messages of waiting members to one URL.
pub(crate) struct WebhookSender {
    context: Arc<Context>,
    url: String,
    in_flight: FuturesUnordered<BoxFuture<'static, (ActionId, Result<(), String>)>>,
    /// Messages that were sent and are not due for a retry.
    sent: HashSet<ActionId>,
    delivered: HashSet<ActionId>,
    /// The time at which undelivered messages are retried.
    retry_at: Option<Instant>,
    failures: u32,
    reported: HashSet<String>,
}

impl WebhookSender {
    pub(crate) fn new(context: &Arc<Context>, url: String) -> Self {
        Self {
            context: Arc::clone(context),
            url,
            in_flight: FuturesUnordered::new(),
            sent: HashSet::new(),
            delivered: HashSet::new(),
            retry_at: None,
            failures: 0,
            reported: HashSet::new(),
        }
    }

    /// Sends until everything is delivered; returns only to report the reason of a failure, each distinct reason once.
    /// Cancel-safe: requests in flight continue with the next call.
    pub(crate) async fn send(&mut self, messages: &[(ActionId, Value)]) -> String {
        loop {
            self.post_pending(messages);
            match self.in_flight.next().await {
                Some((token, Ok(()))) => {
                    self.delivered.insert(token);
                    self.failures = 0;
                }
                Some((token, Err(why))) => {
                    tracing::warn!(%token, why, "a webhook could not be delivered");
                    self.schedule_retry();
                    if self.reported.len() < MAX_REPORTED && self.reported.insert(why.clone()) {
                        return why;
                    }
                }
                None => match self.retry_at {
                    None => return std::future::pending().await,
                    Some(retry_at) => {
                        tokio::time::sleep_until(retry_at).await;
                        self.retry_at = None;
                        self.sent.clone_from(&self.delivered);
                    }
                },
            }
        }
    }

    /// Sends as many messages as the limit allows.
    fn post_pending(&mut self, messages: &[(ActionId, Value)]) {
        for (token, message) in messages {
            if self.in_flight.len() >= MAX_IN_FLIGHT {
                return;
            }
            if self.sent.insert(*token) {
                let (hooks, url) = (Arc::clone(&self.context.hooks), self.url.clone());
                let (token, message) = (*token, message.clone());
                self.in_flight.push(Box::pin(async move { (token, hooks.post(&url, &message).await) }));
            }
        }
    }

    /// Schedules the retry of undelivered messages, with back-off.
    fn schedule_retry(&mut self) {
        if self.retry_at.is_none() {
            self.failures = self.failures.saturating_add(1);
            self.retry_at = Some(Instant::now() + self.context.config.retry_delay(self.failures).into());
        }
    }
}
