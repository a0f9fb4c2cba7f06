//! The clock, which is passed in so that tests of timeouts and back-off need no sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use muster_core::time::Timestamp;

/// The source of time.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Sleeps until that time or less long: callers check the clock again.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let left: Duration = at.since(self.now()).into();
        tokio::time::sleep(left.min(LONGEST_SLEEP)).boxed()
    }

    /// Synchronizes a clock that several replicas share with the database's time, whose query took `took`. Returns the
    /// microseconds by which the clock was set forward.
    fn synchronize(&self, _database: Timestamp, _took: Duration) -> i64 {
        0
    }
}

/// Sleeps until that time, and not less long.
pub(crate) async fn wait_until(clock: &dyn Clock, at: Timestamp) {
    while clock.now() < at {
        clock.sleep_until(at).await;
    }
}

/// The longest sleep: the machine may be suspended meanwhile, or its clock may be set.
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

/// The clock of a database that several replicas share. The order of their changes, due times and timeouts agree,
/// however far the clocks of their machines differ.
pub struct DatabaseClock {
    machine: Arc<dyn Clock>,
    /// The microseconds by which the database's clock is ahead of the machine's.
    offset: AtomicI64,
}

impl DatabaseClock {
    /// Creates a clock that equals the machine's until it is synchronized.
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
        // The database may have read its clock at any moment of the query.
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
