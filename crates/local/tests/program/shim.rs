//! A program that is nothing but the shim, for tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_local::shim::run_if_asked().unwrap_or(ExitCode::from(2))
}
