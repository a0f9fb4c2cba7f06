//! A clock that a test advances.

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use muster_core::time::{TimeSpan, Timestamp};
use muster_engine::ports::clock::{Clock, SystemClock};
use tokio::sync::watch;

use crate::eventually::PATIENCE;

/// A clock that only a test advances. Clones share its time.
#[derive(Clone)]
pub struct ManualClock {
    state: Arc<watch::Sender<ClockState>>,
}

struct ClockState {
    now: Timestamp,
    /// The sleeping tasks, with the time until which each sleeps.
    asleep: HashMap<u64, Timestamp>,
    sleeps: u64,
}

impl Default for ManualClock {
    /// A clock with the present time.
    fn default() -> Self {
        let state = ClockState { now: SystemClock.now(), asleep: HashMap::new(), sleeps: 0 };
        Self { state: Arc::new(watch::Sender::new(state)) }
    }
}

impl ManualClock {
    /// Advances the time, and wakes the sleepers that are due.
    pub fn advance(&self, span: TimeSpan) {
        self.state.send_modify(|state| {
            state.now = state.now.after(span);
            let now = state.now;
            state.asleep.retain(|_, until| *until > now);
        });
    }

    /// Returns when a task sleeps by this clock: a task that was woken has then done its work.
    pub async fn a_task_sleeps(&self) {
        let mut state = self.state.subscribe();
        // Never closed: this clock owns the sender.
        let asleep = tokio::time::timeout(PATIENCE, state.wait_for(|state| !state.asleep.is_empty())).await;
        assert!(asleep.is_ok(), "waited {PATIENCE:?} for a task that sleeps by this clock");
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.state.borrow().now
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        async move {
            let sleep = Sleep::begin(clock, at);
            let mut state = sleep.clock.state.subscribe();
            drop(state.wait_for(|state| state.now >= at).await);
        }
        .boxed()
    }
}

/// The registration of a sleeping task, which ends when it is dropped.
struct Sleep {
    clock: ManualClock,
    number: u64,
}

impl Sleep {
    fn begin(clock: ManualClock, until: Timestamp) -> Self {
        let mut number = 0;
        clock.state.send_modify(|state| {
            state.sleeps += 1;
            number = state.sleeps;
            if until > state.now {
                state.asleep.insert(number, until);
            }
        });
        Self { clock, number }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clock.state.send_modify(|state| {
            state.asleep.remove(&self.number);
        });
    }
}
