//! Answers that are good for a moment.

use std::collections::HashMap;
use std::sync::Arc;

use muster_core::time::{Span, Timestamp};
use muster_service::ports::clock::Clock;
use muster_service::ports::identity::Vouched;
use parking_lot::Mutex;

/// How long an answer holds, good or bad: as long as a token that was taken back may still be good.
pub(super) const HOLDS: Span = Span::from_secs(5);

/// The most that are remembered; who calls beyond that is asked about each time.
pub(super) const MOST: usize = 10_000;

/// What was answered, by the hash of the token: nobody finds a token here.
pub(super) struct Remembered {
    clock: Arc<dyn Clock>,
    answers: Mutex<HashMap<String, Entry>>,
}

/// Whom Kubernetes vouched for; nobody if the token was not good.
#[derive(Clone)]
pub(super) struct Answer(pub(super) Option<Vouched>);

struct Entry {
    until: Timestamp,
    answer: Answer,
}

impl Remembered {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, answers: Mutex::default() }
    }

    /// What was answered a moment ago.
    pub(super) fn get(&self, key: &str) -> Option<Answer> {
        let now = self.clock.now();
        self.answers.lock().get(key).filter(|entry| entry.until > now).map(|entry| entry.answer.clone())
    }

    pub(super) fn put(&self, key: String, answer: Answer) {
        let now = self.clock.now();
        let mut answers = self.answers.lock();
        if answers.len() >= MOST {
            answers.retain(|_, entry| entry.until > now);
        }
        if answers.len() < MOST {
            answers.insert(key, Entry { until: now.after(HOLDS), answer });
        }
    }
}
