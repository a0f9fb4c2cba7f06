//! The clock, passed in: tests of time-outs and back-off need no sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use muster_core::time::Timestamp;

/// The source of time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Returns at that moment or earlier: callers check the clock again.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let left: Duration = at.since(self.now()).into();
        tokio::time::sleep(left.min(LONGEST_SLEEP)).boxed()
    }

    /// The database had this time when it was asked, and its answer took so long. A clock that several replicas share
    /// follows it; returns by how many microseconds it was set forward.
    fn synchronize(&self, _database: Timestamp, _took: Duration) -> i64 {
        0
    }
}

/// Returns at that moment, and not earlier.
pub(crate) async fn wait_until(clock: &dyn Clock, at: Timestamp) {
    while clock.now() < at {
        clock.sleep_until(at).await;
    }
}

/// Bounded, because the machine may sleep meanwhile or its clock may be set.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock before 1970 is broken; treat it as 1970.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

/// The clock of a database that several replicas share: their order, due times and time-outs agree, however far their own
/// clocks are apart.
pub struct DatabaseClock {
    machine: Arc<dyn Clock>,
    /// How far the database's clock is ahead of the machine's.
    offset: AtomicI64,
}

impl DatabaseClock {
    /// A clock that goes by the machine's until it is synchronized.
    pub fn new(machine: Arc<dyn Clock>) -> Self {
        Self { machine, offset: AtomicI64::new(0) }
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(
            self.machine.now().micros().saturating_add(self.offset.load(Ordering::Acquire)),
        )
    }

    fn synchronize(&self, database: Timestamp, took: Duration) -> i64 {
        // It may have been asked at any moment of that time.
        let uncertain = i64::try_from(took.as_micros()).unwrap_or(i64::MAX);
        let offset =
            database.micros().saturating_sub(self.machine.now().micros()).saturating_add(uncertain / 2);
        let error = offset.saturating_sub(self.offset.load(Ordering::Acquire));
        if error.saturating_abs() <= uncertain {
            return 0;
        }
        self.offset.store(offset, Ordering::Release);
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(i64);

    impl Clock for Fixed {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(self.0)
        }
    }

    #[test]
    fn a_clock_follows_the_database_and_not_the_noise_of_its_answers() {
        let clock = DatabaseClock::new(Arc::new(Fixed(5_000_000)));
        assert_eq!(clock.now().micros(), 5_000_000);
        let set = clock.synchronize(Timestamp::from_micros(2_000_000), Duration::from_micros(100));
        assert_eq!(set, -2_999_950);
        assert_eq!(clock.now().micros(), 2_000_050);
        assert_eq!(clock.synchronize(Timestamp::from_micros(2_000_060), Duration::from_micros(100)), 0);
        assert_eq!(clock.now().micros(), 2_000_050, "within what the answer took");
        clock.synchronize(Timestamp::from_micros(9_000_000), Duration::ZERO);
        assert_eq!(clock.now().micros(), 9_000_000);
    }
}
