//! A Spark cluster through `muster create`, against the same processes started and awaited by hand.

use std::time::Duration;

use muster_core::cluster::Framework;

fn main() -> anyhow::Result<()> {
    muster_bench::laptop::main(Framework::Spark, Duration::from_millis(300))
}
