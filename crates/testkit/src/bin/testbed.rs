//! The process that owns the real programs that tests run against.

use std::process::ExitCode;

use clap::Parser as _;
use muster_testkit::testbed::Args;

fn main() -> ExitCode {
    Args::parse().run()
}
