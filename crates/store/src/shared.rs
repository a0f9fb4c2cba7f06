//! What every handle of a store shares: who is told of commits, and how many there were.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::broadcast;

use crate::transaction::{Effects, Touched};

/// Changes that a slow listener may be behind before it has to read again: a few of the largest groups.
const BACKLOG: usize = 4096;

#[derive(Clone)]
pub(crate) struct Shared {
    inner: Arc<Inner>,
}

struct Inner {
    commits: AtomicU64,
    touched: broadcast::Sender<Touched>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let (touched, _) = broadcast::channel(BACKLOG);
        Self { inner: Arc::new(Inner { commits: AtomicU64::new(0), touched }) }
    }

    /// Counts a commit of ours, if it wrote anything, and tells whoever listens.
    pub(crate) fn committed(&self, effects: &Effects) {
        self.inner.commits.fetch_add(u64::from(effects.wrote), Ordering::Relaxed);
        self.tell(&effects.touched);
    }

    /// Tells whoever listens, here, of a commit made anywhere.
    pub(crate) fn tell(&self, touched: &[Touched]) {
        for change in touched {
            // Nobody listening is fine.
            drop(self.inner.touched.send(*change));
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Touched> {
        self.inner.touched.subscribe()
    }

    pub(crate) fn commits(&self) -> u64 {
        self.inner.commits.load(Ordering::Relaxed)
    }
}
