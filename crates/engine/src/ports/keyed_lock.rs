//! A lock for each of many keys, for providers whose writes must not overtake each other.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use tokio::sync::{Mutex, OwnedMutexGuard};

/// A lock for each key, which exists only while a task holds it or waits for it.
#[derive(Debug)]
pub struct KeyedLock<K>(parking_lot::Mutex<HashMap<K, Weak<Mutex<()>>>>);

impl<K> Default for KeyedLock<K> {
    fn default() -> Self {
        Self(parking_lot::Mutex::default())
    }
}

impl<K: Eq + Hash> KeyedLock<K> {
    /// Waits until no other task holds the lock of a key.
    pub async fn lock(&self, key: K) -> OwnedMutexGuard<()> {
        self.of(key).lock_owned().await
    }

    fn of(&self, key: K) -> Arc<Mutex<()>> {
        let mut locks = self.0.lock();
        if let Some(lock) = locks.get(&key).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        locks.insert(key, Arc::downgrade(&lock));
        lock
    }
}
