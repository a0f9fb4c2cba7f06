//! A short-lived cache of token reviews.

use std::collections::HashMap;
use std::sync::Arc;

use muster_core::principal::Principal;
use muster_core::time::{TimeSpan, Timestamp};
use muster_service::ports::clock::Clock;
use parking_lot::Mutex;

/// How long a result is cached, and thus how long a revoked token may still be accepted.
pub(super) const LIFETIME: TimeSpan = TimeSpan::from_secs(5);

/// The most entries; tokens beyond that are reviewed each time.
pub(super) const CAPACITY: usize = 10_000;

/// Results by the hash of the token: the cache holds no tokens.
pub(super) struct TokenCache {
    clock: Arc<dyn Clock>,
    entries: Mutex<HashMap<String, Entry>>,
}

/// The owner of a token with its role; none if the token is invalid.
#[derive(Clone)]
pub(super) struct CachedUser(pub(super) Option<Principal>);

struct Entry {
    until: Timestamp,
    user: CachedUser,
}

impl TokenCache {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, entries: Mutex::default() }
    }

    /// The result for a token, if it is still cached.
    pub(super) fn get(&self, key: &str) -> Option<CachedUser> {
        let now = self.clock.now();
        self.entries.lock().get(key).filter(|entry| entry.until > now).map(|entry| entry.user.clone())
    }

    pub(super) fn put(&self, key: String, user: CachedUser) {
        let now = self.clock.now();
        let mut entries = self.entries.lock();
        if entries.len() >= CAPACITY {
            entries.retain(|_, entry| entry.until > now);
        }
        if entries.len() < CAPACITY {
            entries.insert(key, Entry { until: now.after(LIFETIME), user });
        }
    }
}
