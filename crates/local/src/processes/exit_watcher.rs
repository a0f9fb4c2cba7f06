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
            let outcome = match running.wait_for_exit().await {
                Ok(outcome) => outcome,
                Err(error) => {
                    // Publishes no end, and the run stays in `watched`: the observation of an end would watch the run
                    // again, and fail again at once. The engine observes nodes periodically as well.
                    tracing::warn!(node = %key.0, %error, "cannot wait for the end of a node");
                    return;
                }
            };
            if outcome == RunOutcome::Lost {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use futures::StreamExt as _;
    use muster_core::action::Fence;
    use muster_core::time::Timestamp;
    use tokio::process::{Child, Command};
    use uuid::Uuid;

    use super::*;
    use crate::files;
    use crate::shim::{NodeFolder, NodeProcessState, ProcessId, RuntimeFolder, ShimState};
    use crate::sys::boot_id;

    /// Returns a node whose shim is a process of this test.
    fn node(shims: &Shims, parent: &Path, number: u128) -> (RunningNode, Child) {
        let child = Command::new("sleep").arg("600").kill_on_drop(true).spawn().expect("sleep starts");
        let folder = NodeFolder::new(parent, NodeId::from_uuid(Uuid::from_u128(number)));
        folder.create().expect("a folder");
        let pid = i32::try_from(child.id().expect("it runs")).expect("a process id");
        let state = ShimState {
            node: folder.node(),
            generation: Fence(1),
            boot_id: boot_id().expect("a boot id").to_owned(),
            shim: ProcessId::find(pid).expect("it runs"),
            child: None,
            socket: folder.path().join("socket"),
            started_at: Timestamp::default(),
            end: None,
        };
        files::write(&folder.path().join("state.json"), &state).expect("the state is written");
        match shims.inspect(&folder).expect("a state") {
            NodeProcessState::Running(running) => (running, child),
            other => panic!("the node does not run: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_failed_wait_publishes_no_end() {
        let parent = tempfile::tempdir().expect("a folder");
        let runtime = RuntimeFolder::at(parent.path().join("run")).expect("a runtime folder");
        let shims = Shims::with_program("/bin/false", runtime);
        let watcher = ExitWatcher::new(shims.clone());
        let mut changes = watcher.changes();
        assert_eq!(changes.next().await, Some(WorldChange::Everything));
        let (unreadable, mut first) = node(&shims, parent.path(), 1);
        let (readable, mut second) = node(&shims, parent.path(), 2);
        watcher.watch(&unreadable);
        watcher.watch(&readable);
        fs::write(unreadable.folder().path().join("state.json"), "no state").expect("the state is replaced");
        // The ends are noticed in their order, so the change of the first node would be published first.
        first.kill().await.expect("it is killed");
        second.kill().await.expect("it is killed");
        assert_eq!(changes.next().await, Some(WorldChange::Node(readable.folder().node())));
        let is_watched = |running: &RunningNode| {
            watcher.watched.lock().contains(&(running.folder().node(), running.state().shim.pid))
        };
        assert!(is_watched(&unreadable) && !is_watched(&readable), "a failed wait is not repeated");
    }
}
