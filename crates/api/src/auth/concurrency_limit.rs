//! Bounds work that callers cause before they are authenticated.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits the tasks that run at once and the tasks that wait; further tasks are refused.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    running: Arc<Semaphore>,
    waiting: Semaphore,
}

impl ConcurrencyLimit {
    pub(crate) fn new(running: usize, waiting: usize) -> Self {
        Self { running: Arc::new(Semaphore::new(running)), waiting: Semaphore::new(waiting) }
    }

    /// Waits for a permit, which is held until it is dropped; returns none if too many tasks wait already.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let _waiting = self.waiting.try_acquire().ok()?;
        Arc::clone(&self.running).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn so_many_run_so_many_wait_and_the_rest_is_refused() {
        let limit = ConcurrencyLimit::new(1, 1);
        let running = limit.turn().await.expect("a free turn");
        let mut waiting = Box::pin(limit.turn());
        assert!(poll!(waiting.as_mut()).is_pending());
        assert!(limit.turn().await.is_none(), "one waits already");
        drop(running);
        assert!(waiting.await.is_some());
        assert!(limit.turn().await.is_some(), "all turns are over");
    }
}
