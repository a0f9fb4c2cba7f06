//! The `muster` binary.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    muster_cli::Args::parse().run()
}
