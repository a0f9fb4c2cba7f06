//! Running a benchmark: bounded in time, and tidy however it ends.

use std::time::Duration;

use anyhow::{Result, bail};

/// Runs `work` for at most `limit`. What it made is removed also if it takes too long or is interrupted.
pub fn run(limit: Duration, work: impl Future<Output = Result<()>>) -> Result<()> {
    // One thread: the cores are the server's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            result = work => result,
            () = tokio::time::sleep(limit) => bail!("it took longer than {} s", limit.as_secs()),
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    })
}
