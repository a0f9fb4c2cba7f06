//! The slots of an engine bound how many actions run concurrently.

use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A slot that an action occupies while it works. A waiting action yields it: clusters whose members take hours to
/// start must not block other actions.
#[derive(Clone)]
pub(crate) struct Slot {
    slots: Arc<Semaphore>,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Slot {
    /// Takes a free slot; none if the semaphore is closed.
    pub(crate) async fn take(slots: &Arc<Semaphore>) -> Option<Self> {
        let held = Arc::clone(slots).acquire_owned().await.ok()?;
        Some(Self { slots: Arc::clone(slots), held: Arc::new(Mutex::new(Some(held))) })
    }

    /// Waits without the slot, and takes one again afterwards. A future that is ready at once keeps the slot.
    pub(crate) async fn yield_while<T>(&self, mut wait: impl Future<Output = T> + Unpin) -> T {
        if let Poll::Ready(at_once) = futures::poll!(&mut wait) {
            return at_once;
        }
        self.hold(None);
        let waited = wait.await;
        // The semaphore is never closed.
        self.hold(Arc::clone(&self.slots).acquire_owned().await.ok());
        waited
    }

    fn hold(&self, slot: Option<OwnedSemaphorePermit>) {
        *self.held.lock() = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_yielded_slot_is_free_for_others_and_is_taken_again() {
        let slots = Arc::new(Semaphore::new(1));
        let slot = Slot::take(&slots).await.unwrap();
        assert_eq!(slots.available_permits(), 0);
        let wait = async {
            tokio::task::yield_now().await;
            slots.available_permits()
        };
        assert_eq!((slot.yield_while(Box::pin(wait)).await, slots.available_permits()), (1, 0));
        let at_once = slot.yield_while(Box::pin(async { slots.available_permits() })).await;
        assert_eq!(at_once, 0, "nothing was waited for");
        drop(slot);
        assert_eq!(slots.available_permits(), 1);
    }
}
