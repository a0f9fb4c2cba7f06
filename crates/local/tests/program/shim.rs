//! The shim as a program of its own, for tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_local::shim::run_if_invoked().unwrap_or(ExitCode::from(2))
}
