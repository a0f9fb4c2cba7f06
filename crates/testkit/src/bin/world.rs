//! The world that engines of tests act on.

use std::process::ExitCode;

use clap::Parser as _;
use muster_testkit::world::server::Args;

fn main() -> ExitCode {
    Args::parse().run()
}
