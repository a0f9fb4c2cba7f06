//! The shared state of all handles of a store: listeners of commits, counters, and the health of writes.

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::error::StoreError;
use crate::metrics::Metrics;
use crate::transaction::{CommitEffects, Touched};

/// The number of changes that a slow subscriber may lag behind before it has to read everything again: those of a few
/// of the largest group commits.
const BACKLOG: usize = 4096;

/// A listener that is notified of each commit, in their order, on the committing thread and before the caller gets the
/// result. Therefore a listener must be fast.
pub trait Listener: Send + Sync {
    /// Called after a commit with the changed objects.
    fn on_commit(&self, touched: &[Touched]);
}

#[derive(Clone)]
pub(crate) struct Shared {
    inner: Arc<SharedState>,
}

struct SharedState {
    /// The id of this replica in notices to others.
    id: String,
    metrics: Metrics,
    listeners: RwLock<Vec<Weak<dyn Listener>>>,
    touched: broadcast::Sender<Touched>,
    /// The reason why the last write failed, until one succeeds.
    broken: Mutex<Option<String>>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let (touched, _) = broadcast::channel(BACKLOG);
        let id = Uuid::new_v4().simple().to_string();
        let (metrics, listeners, broken) = (Metrics::default(), RwLock::default(), Mutex::default());
        Self { inner: Arc::new(SharedState { id, metrics, listeners, touched, broken }) }
    }

    /// The id of this replica, the prefix of its notices to other replicas.
    pub(crate) fn id(&self) -> &str {
        &self.inner.id
    }

    /// Counts a commit of this process, if it wrote anything, and notifies the listeners.
    pub(crate) fn committed(&self, effects: &CommitEffects) {
        if effects.wrote {
            self.inner.metrics.commits.inc();
            self.set_broken(None);
        }
        self.notify(&effects.touched);
    }

    /// Notifies the listeners in this process of a commit made anywhere.
    pub(crate) fn notify(&self, touched: &[Touched]) {
        if touched.is_empty() {
            return;
        }
        let listeners = self.inner.listeners.read();
        for listener in listeners.iter().filter_map(Weak::upgrade) {
            listener.on_commit(touched);
        }
        drop(listeners);
        for change in touched {
            // There may be no subscriber.
            drop(self.inner.touched.send(*change));
        }
    }

    pub(crate) fn listen(&self, listener: Weak<dyn Listener>) {
        let mut listeners = self.inner.listeners.write();
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(listener);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Touched> {
        self.inner.touched.subscribe()
    }

    /// Records a failed command as a failure of the database, unless a rule refused it.
    pub(crate) fn failed(&self, error: &StoreError) {
        if matches!(error, StoreError::Unavailable(_)) {
            self.set_broken(Some(error.to_string()));
        }
    }

    fn set_broken(&self, why: Option<String>) {
        *self.inner.broken.lock() = why;
    }

    pub(crate) fn broken(&self) -> Option<String> {
        self.inner.broken.lock().clone()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }
}
