//! `muster completion`: what a shell needs to complete commands.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use clap_complete::Shell;

use crate::output;

/// Print the completions of a shell: source them in its start file
#[derive(Debug, Parser)]
pub(crate) struct Completion {
    /// Which shell
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(self) -> ExitCode {
        let Self { shell } = self;
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut crate::Args::command(), "muster", &mut script);
        output::print(&String::from_utf8_lossy(&script))
    }
}
