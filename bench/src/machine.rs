//! The load of the machine: a floor that was measured on a busy machine is not valid.

use std::time::Duration;

use anyhow::{Context as _, Result};

/// The share of time in percent, up to which waiting for a core does not show in medians.
const QUIET: f64 = 5.0;

/// The time that this thread has waited for a core while it was runnable, as the kernel counts it.
pub fn waited() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let waited = text.split_whitespace().nth(1).context("schedstat has no second number")?;
    Ok(Duration::from_nanos(waited.parse()?))
}

/// Prints the load of the machine, because figures of a busy machine are worth less.
pub fn report() -> Result<()> {
    let text = std::fs::read_to_string("/proc/pressure/cpu")?;
    let share = text.split("avg10=").nth(1).and_then(|rest| rest.split_whitespace().next());
    let share: f64 = share.context("no pressure")?.parse()?;
    let word = if share > QUIET { "BUSY: figures are worth less" } else { "quiet" };
    println!("the machine is {word} (work waited for a core in {share} % of the last 10 s)");
    Ok(())
}
