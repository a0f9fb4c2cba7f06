//! Publishes the end of every observed node, by process descriptors and without polling.

use std::collections::HashSet;
use std::sync::Arc;

use futures::stream::BoxStream;
use muster_core::ids::NodeId;
use muster_engine::ports::provider::WorldChange;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::shim::{RunOutcome, RunningNode, Shims};

/// Capacity of the change feed; a subscriber that lags further observes everything.
const FEED_CAPACITY: usize = 1024;

/// Waits for the ends of nodes and publishes them.
#[derive(Clone)]
pub(super) struct ExitWatcher {
    shims: Shims,
    feed: broadcast::Sender<WorldChange>,
    /// Nodes with the process of their shim, so that a restarted node is watched again.
    watched: Arc<Mutex<HashSet<(NodeId, i32)>>>,
}

impl ExitWatcher {
    pub(super) fn new(shims: Shims) -> Self {
        let (feed, _) = broadcast::channel(FEED_CAPACITY);
        Self { shims, feed, watched: Arc::default() }
    }

    /// Watches a node until it ends. Does nothing if this run of the node is watched already.
    pub(super) fn watch(&self, running: &RunningNode) {
        let key = (running.folder().node(), running.state().shim.pid);
        if !self.watched.lock().insert(key) {
            return;
        }
        let (watcher, running) = (self.clone(), running.clone());
        tokio::spawn(async move {
            let outcome = running.wait_for_exit().await;
            if matches!(outcome, Ok(RunOutcome::Lost)) {
                // The kernel killed the command with the shim, but not the command's children.
                if let Err(error) = watcher.shims.clean_up_lost(running.folder()).await {
                    tracing::warn!(node = %key.0, %error, "cannot kill the processes of a node whose shim was killed");
                }
            }
            tracing::info!(node = %key.0, ?outcome, "a node ended");
            watcher.watched.lock().remove(&key);
            // Fails if there is no subscriber, which is fine.
            drop(watcher.feed.send(WorldChange::Node(key.0)));
        });
    }

    /// Subscribes to changes. The stream begins with a change of everything, since earlier ends were not recorded.
    pub(super) fn changes(&self) -> BoxStream<'static, WorldChange> {
        WorldChange::stream(self.feed.subscribe())
    }
}
