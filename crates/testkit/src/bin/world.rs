//! The world in which engines of tests start nodes.

use std::process::ExitCode;

use clap::Parser as _;
use muster_testkit::world::server::Args;

fn main() -> ExitCode {
    Args::parse().run()
}
