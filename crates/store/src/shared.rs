//! What every handle of a store shares: who is told of commits, what is counted, and whether the last write worked.

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::error::StoreError;
use crate::metrics::Metrics;
use crate::transaction::{Effects, Touched};

/// Changes that a slow listener may be behind before it has to read again: a few of the largest groups.
const BACKLOG: usize = 4096;

/// Somebody who is told of commits as they are made: in their order, on the thread that made them, before whoever asked
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
    /// What other replicas know us by.
    id: String,
    metrics: Metrics,
    listeners: RwLock<Vec<Weak<dyn Listener>>>,
    touched: broadcast::Sender<Touched>,
    /// Why the last write failed, until one works again.
    broken: Mutex<Option<String>>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let (touched, _) = broadcast::channel(BACKLOG);
        let id = Uuid::new_v4().simple().to_string();
        let (metrics, listeners, broken) = (Metrics::default(), RwLock::default(), Mutex::default());
        Self { inner: Arc::new(Inner { id, metrics, listeners, touched, broken }) }
    }

    /// What our notices to other replicas begin with.
    pub(crate) fn id(&self) -> &str {
        &self.inner.id
    }

    /// Counts a commit of ours, if it wrote anything, and tells whoever listens.
    pub(crate) fn committed(&self, effects: &Effects) {
        if effects.wrote {
            self.inner.metrics.commits.inc();
            self.set_broken(None);
        }
        self.tell(&effects.touched);
    }

    /// Tells whoever listens, here, of a commit made anywhere.
    pub(crate) fn tell(&self, touched: &[Touched]) {
        if touched.is_empty() {
            return;
        }
        let listeners = self.inner.listeners.read();
        for listener in listeners.iter().filter_map(Weak::upgrade) {
            listener.on_commit(touched);
        }
        drop(listeners);
        for change in touched {
            // Nobody listening is fine.
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
