//! `muster version`.

use std::process::ExitCode;

use clap::Parser;

use crate::output;

/// Version and commit, as `muster --version` prints them.
pub(crate) const LINE: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("MUSTER_COMMIT"), ")");

#[derive(Debug, Parser)]
pub(crate) struct Version {}

impl Version {
    pub(crate) fn run(self) -> ExitCode {
        let Self {} = self;
        output::print(&format!("muster {LINE}\n"))
    }
}
