//! The clock, passed in: tests of time-outs and back-off need no sleep.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use muster_core::time::Timestamp;

/// Tells what time it is.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Returns at that moment, or a while before: whoever waits looks at the clock again.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let left: Duration = at.since(self.now()).into();
        tokio::time::sleep(left.min(LONGEST_SLEEP)).boxed()
    }
}

/// A machine may have slept meanwhile, or its clock may have been set.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // Before 1970 only a broken clock is; the beginning is as good as anything then.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}
