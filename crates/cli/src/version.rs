//! `muster version`.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

/// Version and commit, as `muster --version` shows them too.
pub(crate) const LINE: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("MUSTER_COMMIT"), ")");

#[derive(Debug, Parser)]
pub(crate) struct Version {}

impl Version {
    pub(crate) fn run(self) -> ExitCode {
        let Self {} = self;
        // A closed pipe (`muster version | true`) is no reason to panic.
        match writeln!(std::io::stdout(), "muster {LINE}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        }
    }
}
