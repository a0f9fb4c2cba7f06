//! A Ray cluster through `muster create`, compared with the same processes started without Muster.

use std::time::Duration;

use muster_core::cluster::Framework;

fn main() -> anyhow::Result<()> {
    muster_bench::laptop::main(Framework::Ray, Duration::from_millis(300))
}
