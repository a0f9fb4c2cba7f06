//! The clock, passed in: tests of time-outs and back-off need no sleep.

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
