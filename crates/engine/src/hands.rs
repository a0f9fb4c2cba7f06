//! The hands of an engine: as many actions as it has of them are worked on at once.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One hand, for as long as an action works. One that only waits for the world lends it to others: clusters whose
/// members do not come for hours must not keep anybody else from being served.
#[derive(Clone)]
pub(crate) struct Hand {
    hands: Arc<Semaphore>,
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Hand {
    /// Takes one, once one is free; none if the engine has no hands any more.
    pub(crate) async fn take(hands: &Arc<Semaphore>) -> Option<Self> {
        let held = Arc::clone(hands).acquire_owned().await.ok()?;
        Some(Self { hands: Arc::clone(hands), held: Arc::new(Mutex::new(Some(held))) })
    }

    /// Waits without it, and has one again afterwards.
    pub(crate) async fn lend<T>(&self, wait: impl Future<Output = T>) -> T {
        self.hold(None);
        let waited = wait.await;
        // They are never closed.
        self.hold(Arc::clone(&self.hands).acquire_owned().await.ok());
        waited
    }

    fn hold(&self, hand: Option<OwnedSemaphorePermit>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = hand;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hand_that_waits_is_free_for_others_and_is_had_again() {
        let hands = Arc::new(Semaphore::new(1));
        let hand = Hand::take(&hands).await.unwrap();
        assert_eq!(hands.available_permits(), 0);
        let free = hand.lend(async { hands.available_permits() }).await;
        assert_eq!((free, hands.available_permits()), (1, 0));
        drop(hand);
        assert_eq!(hands.available_permits(), 1);
    }
}
