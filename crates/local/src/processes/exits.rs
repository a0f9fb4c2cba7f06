//! Tells of every node that ends, by the kernel's word.

use std::collections::HashSet;
use std::sync::Arc;

use futures::stream::BoxStream;
use muster_core::ids::NodeId;
use muster_engine::ports::provider::WorldChange;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::shim::{Outcome, Running, Shims};

/// Ends that a slow listener may be behind; one that is further behind looks at everything.
const BACKLOG: usize = 1024;

/// Which processes are waited for, and who is told.
#[derive(Clone)]
pub(super) struct Exits {
    shims: Shims,
    told: broadcast::Sender<WorldChange>,
    /// By the shim's process, so that a node that is started again is waited for again.
    watched: Arc<Mutex<HashSet<(NodeId, i32)>>>,
}

impl Exits {
    pub(super) fn new(shims: Shims) -> Self {
        let (told, _) = broadcast::channel(BACKLOG);
        Self { shims, told, watched: Arc::default() }
    }

    /// Waits for the end of a node, once however often it is asked.
    pub(super) fn watch(&self, running: &Running) {
        let key = (running.folder().node(), running.state().shim.pid);
        if !self.watched.lock().insert(key) {
            return;
        }
        let (exits, running) = (self.clone(), running.clone());
        tokio::spawn(async move {
            let outcome = running.exited().await;
            if matches!(outcome, Ok(Outcome::Lost)) {
                // Its process died with the shim; what that had started did not.
                if let Err(error) = exits.shims.clean_up_lost(running.folder()).await {
                    tracing::warn!(node = %key.0, %error, "what a lost shim left cannot be ended");
                }
            }
            tracing::info!(node = %key.0, ?outcome, "a node ended");
            exits.watched.lock().remove(&key);
            // Nobody listening is fine.
            drop(exits.told.send(WorldChange::Node(key.0)));
        });
    }

    /// Begins with everything: nobody knows what ended while nobody listened.
    pub(super) fn changes(&self) -> BoxStream<'static, WorldChange> {
        WorldChange::stream(self.told.subscribe())
    }
}
