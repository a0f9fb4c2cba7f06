//! One listener to the store's commits, who wakes just those that wait for something.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use muster_core::ids::{ActionId, ClusterId};
use muster_store::{Store, Touched};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// An action's row changed.
    Action(ActionId),
    /// Something in the world changed that belongs to a cluster.
    World(ClusterId),
}

/// Wakes whoever waits for an action or a cluster's world, and whoever looks for work.
#[derive(Default)]
pub(crate) struct Hub {
    waiting: Mutex<HashMap<Topic, Waiting>>,
    /// Something may be claimed.
    pub(crate) work: Notify,
}

struct Waiting {
    wake: Arc<Notify>,
    listeners: usize,
}

impl Hub {
    /// Listens until the store is gone.
    pub(crate) async fn listen(self: Arc<Self>, store: Store) {
        let mut commits = store.subscribe();
        loop {
            match commits.recv().await {
                Ok(Touched::Work) => self.work.notify_one(),
                Ok(Touched::Action(id)) => self.wake(Topic::Action(id)),
                Ok(Touched::Cluster(_)) => {}
                // Too many to follow: everybody looks again.
                Err(RecvError::Lagged(_)) => self.wake_all(),
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Begins to listen for a topic, until the answer is dropped.
    pub(crate) fn follow(self: &Arc<Self>, topic: Topic) -> Follow {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = waiting.entry(topic).or_insert_with(|| Waiting { wake: Arc::default(), listeners: 0 });
        entry.listeners += 1;
        Follow { hub: Arc::clone(self), topic, wake: Arc::clone(&entry.wake) }
    }

    pub(crate) fn wake(&self, topic: Topic) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = waiting.get(&topic) {
            entry.wake.notify_waiters();
            // Kept for one that is just about to wait.
            entry.wake.notify_one();
        }
    }

    /// Everybody looks again.
    pub(crate) fn wake_all(&self) {
        self.work.notify_one();
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in waiting.values() {
            entry.wake.notify_waiters();
            entry.wake.notify_one();
        }
    }
}

/// Somebody's interest in a topic.
pub(crate) struct Follow {
    hub: Arc<Hub>,
    topic: Topic,
    wake: Arc<Notify>,
}

impl Follow {
    /// Returns when it may have changed since the last call.
    pub(crate) async fn changed(&self) {
        self.wake.notified().await;
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let mut waiting = self.hub.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = waiting.get_mut(&self.topic) {
            entry.listeners -= 1;
            if entry.listeners == 0 {
                waiting.remove(&self.topic);
            }
        }
    }
}
