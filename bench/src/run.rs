//! The runtime of a benchmark, with a time limit and clean-up.

use std::time::Duration;

use anyhow::{Result, bail};

/// Runs `work` for at most `limit`. Its values are dropped also after a timeout or an interrupt, so that it leaves nothing.
pub fn run(limit: Duration, work: impl Future<Output = Result<()>>) -> Result<()> {
    // One thread, so that the server has the other cores.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            result = work => result,
            () = tokio::time::sleep(limit) => bail!("it took longer than {} s", limit.as_secs()),
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    })
}
