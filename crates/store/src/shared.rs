//! The shared state of all handles of a store: listeners of commits, counters, and the health of writes.

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::error::StoreError;
use crate::metrics::Metrics;
use crate::transaction::{Effects, Touched};

/// Changes that a slow listener may be behind before it has to read again: a few of the largest groups.
const BACKLOG: usize = 4096;

/// A listener that is notified of each commit: in their order, on the thread that made the commit, before the caller
/// for them has an answer. So whatever they do has to be quick.
pub trait Listener: Send + Sync {
    /// These were changed by a commit.
    fn on_commit(&self, touched: &[Touched]);
}

#[derive(Clone)]
pub(crate) struct Shared {
    inner: Arc<Inner>,
}

struct Inner {
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
        Self { inner: Arc::new(Inner { id, metrics, listeners, touched, broken }) }
    }

    /// The prefix of notices to other replicas.
    pub(crate) fn id(&self) -> &str {
        &self.inner.id
    }

    /// Counts a commit of ours, if it wrote anything, and notifies the listeners.
    pub(crate) fn committed(&self, effects: &Effects) {
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

    /// Takes note of a command that could not be written. What was refused by a rule says nothing of the database,
    /// nor does a command that had nothing to write.
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
