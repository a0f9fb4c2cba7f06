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
const AT_ONCE: usize = 8;

/// The most distinct failures of one action that become events.
const COMPLAINTS: usize = 8;

/// Posts the messages of waiting members to one URL.
pub(crate) struct WebhookSender {
    context: Arc<Context>,
    url: String,
    under_way: FuturesUnordered<BoxFuture<'static, (ActionId, Result<(), String>)>>,
    /// Messages that were sent and are not due for a retry.
    sent: HashSet<ActionId>,
    told: HashSet<ActionId>,
    /// When undelivered messages are retried.
    again: Option<Instant>,
    tries: u32,
    complaints: HashSet<String>,
}

impl WebhookSender {
    pub(crate) fn new(context: &Arc<Context>, url: String) -> Self {
        Self {
            context: Arc::clone(context),
            url,
            under_way: FuturesUnordered::new(),
            sent: HashSet::new(),
            told: HashSet::new(),
            again: None,
            tries: 0,
            complaints: HashSet::new(),
        }
    }

    /// Sends until everything is delivered. Returns only with the reason of a failure, each distinct one once.
    /// Cancel-safe: requests in flight continue with the next call.
    pub(crate) async fn send(&mut self, messages: &[(ActionId, Value)]) -> String {
        loop {
            self.post_pending(messages);
            match self.under_way.next().await {
                Some((token, Ok(()))) => {
                    self.told.insert(token);
                    self.tries = 0;
                }
                Some((token, Err(why))) => {
                    tracing::warn!(%token, why, "a hook was not told");
                    self.put_off();
                    if self.complaints.len() < COMPLAINTS && self.complaints.insert(why.clone()) {
                        return why;
                    }
                }
                None => match self.again {
                    None => return std::future::pending().await,
                    Some(again) => {
                        tokio::time::sleep_until(again).await;
                        self.again = None;
                        self.sent.clone_from(&self.told);
                    }
                },
            }
        }
    }

    /// Sends as many messages as the limit allows.
    fn post_pending(&mut self, messages: &[(ActionId, Value)]) {
        for (token, message) in messages {
            if self.under_way.len() >= AT_ONCE {
                return;
            }
            if self.sent.insert(*token) {
                let (hooks, url) = (Arc::clone(&self.context.hooks), self.url.clone());
                let (token, message) = (*token, message.clone());
                self.under_way.push(Box::pin(async move { (token, hooks.post(&url, &message).await) }));
            }
        }
    }

    /// Undelivered messages are retried with back-off.
    fn put_off(&mut self) {
        if self.again.is_none() {
            self.tries = self.tries.saturating_add(1);
            self.again = Some(Instant::now() + self.context.config.retry_delay(self.tries).into());
        }
    }
}
