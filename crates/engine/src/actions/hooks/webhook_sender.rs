//! Telling whoever has to let members go, until it has arrived.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use muster_core::ids::ActionId;
use serde_json::Value;
use tokio::time::Instant;

use crate::context::Context;

/// Messages that are under way at once: whoever is told of a thousand nodes is not called a thousand times in a moment.
const AT_ONCE: usize = 8;

/// Different reasons of one action that are worth an event.
const COMPLAINTS: usize = 8;

/// Tells one URL of members that wait.
pub(crate) struct WebhookSender {
    context: Arc<Context>,
    url: String,
    under_way: FuturesUnordered<BoxFuture<'static, (ActionId, Result<(), String>)>>,
    /// Those that were sent, whatever became of it, and not to be sent again for now.
    sent: HashSet<ActionId>,
    told: HashSet<ActionId>,
    /// When those are sent again that did not arrive, and how often that was so.
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

    /// Goes on telling. Returns only with a reason for which something does not arrive, once each. Given up half-way it
    /// loses nothing: what is under way stays so.
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

    /// Sends as many as may be under way.
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

    /// What did not arrive is sent again after a pause that grows.
    fn put_off(&mut self) {
        if self.again.is_none() {
            self.tries = self.tries.saturating_add(1);
            self.again = Some(Instant::now() + self.context.config.retry_delay(self.tries).into());
        }
    }
}
