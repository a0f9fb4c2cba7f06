//! Bounded waits for a condition.

use std::fmt::Display;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

/// A limit for conditions in memory, which only a hang reaches.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The interval between checks.
const INTERVAL: Duration = Duration::from_millis(10);

/// Repeats `check` until it is `Ok`, and returns its value. After `limit` it panics, with `what` and with the `Err` of
/// the last check, which shows the state instead.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # let mut numbers = 1..;
/// let number = muster_testkit::eventually("a number above 3", std::time::Duration::from_secs(5), async || {
///     let number = numbers.next().unwrap();
///     if number > 3 { Ok(number) } else { Err(number) }
/// });
/// assert_eq!(number.await, 4);
/// # });
/// ```
#[track_caller]
pub fn eventually<T, Observed: Display>(
    what: &str,
    limit: impl Into<Duration>,
    mut check: impl AsyncFnMut() -> Result<T, Observed>,
) -> impl Future<Output = T> {
    let (caller, limit) = (Location::caller(), limit.into());
    async move {
        let deadline = Instant::now() + limit;
        let mut last = None;
        // A check that hangs must not hang the test.
        while let Ok(checked) = timeout_at(deadline, check()).await {
            match checked {
                Ok(value) => return value,
                Err(seen) => last = Some(seen),
            }
            if Instant::now() >= deadline {
                break;
            }
            sleep(INTERVAL).await;
        }
        match last {
            Some(seen) => panic!("{caller}: waited {limit:?} for {what}; last seen: {seen}"),
            None => panic!("{caller}: waited {limit:?} for {what}; the first check did not end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn what_becomes_true_is_returned() {
        let mut count = 0;
        let third = eventually("the third check", Duration::from_mins(1), async || {
            count += 1;
            if count == 3 { Ok(count) } else { Err(count) }
        });
        assert_eq!(third.await, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "waited 20ms for the moon; last seen: only clouds")]
    async fn what_does_not_become_true_is_named_with_what_was_seen_instead() {
        let moon = async || Err::<(), _>("only clouds");
        eventually("the moon", SHORT, moon).await;
    }

    #[tokio::test]
    #[should_panic(expected = "waited 20ms for an answer; the first check did not end")]
    async fn a_check_that_hangs_is_not_waited_for() {
        let silence = async || std::future::pending::<Result<(), String>>().await;
        eventually("an answer", SHORT, silence).await;
    }
}
