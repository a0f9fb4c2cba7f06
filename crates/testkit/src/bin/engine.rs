//! An engine over the testkit's world, to be killed and stopped.

use std::process::ExitCode;

use clap::Parser as _;
use muster_testkit::world::engine::Args;

fn main() -> ExitCode {
    Args::parse().run()
}
