//! A short-lived cache of the answers of an external service to callers' credentials.

use std::collections::HashMap;
use std::sync::Arc;

use muster_core::time::{TimeSpan, Timestamp};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::ports::clock::Clock;

/// The time that an answer is cached, and thus the longest time that a revoked credential is still accepted.
pub const LIFETIME: TimeSpan = TimeSpan::from_secs(5);

/// The most entries; answers beyond that are not cached.
pub const CAPACITY: usize = 10_000;

/// Answers by the hash of the credentials: the cache holds no credentials.
pub struct AnswerCache<T> {
    clock: Arc<dyn Clock>,
    entries: Mutex<HashMap<Key, CachedAnswer<T>>>,
}

type Key = [u8; 32];

struct CachedAnswer<T> {
    until: Timestamp,
    answer: T,
}

impl<T: Clone> AnswerCache<T> {
    /// Creates an empty cache.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, entries: Mutex::default() }
    }

    /// Returns the answer to these credentials, if it is still cached.
    pub fn get(&self, credentials: &str) -> Option<T> {
        let now = self.clock.now();
        let entries = self.entries.lock();
        entries.get(&key(credentials)).filter(|entry| entry.until > now).map(|entry| entry.answer.clone())
    }

    /// Caches an answer.
    pub fn put(&self, credentials: &str, answer: T) {
        let now = self.clock.now();
        let mut entries = self.entries.lock();
        if entries.len() >= CAPACITY {
            entries.retain(|_, entry| entry.until > now);
        }
        if entries.len() < CAPACITY {
            entries.insert(key(credentials), CachedAnswer { until: now.after(LIFETIME), answer });
        }
    }
}

fn key(credentials: &str) -> Key {
    Sha256::digest(credentials).into()
}
