//! `muster completion`: prints the script with which a shell completes commands and names.

use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use clap_complete::env::Shells;

use crate::failure::Failure;
use crate::output;

/// The program, and the variable that a shell sets to request completions.
const PROGRAM: &str = "muster";
const VARIABLE: &str = "COMPLETE";

/// Print the completion script of a shell, to be sourced in its start file
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  source <(muster completion bash)\n  muster completion fish | source")]
pub(crate) struct Completion {
    /// Name of the shell
    #[arg(value_parser = PossibleValuesParser::new(Shells::builtins().names().collect::<Vec<_>>()))]
    shell: String,
}

impl Completion {
    pub(crate) fn run(self) -> ExitCode {
        let Self { shell } = self;
        output::exit(script(&shell).map(|script| output::print(&String::from_utf8_lossy(&script))))
    }
}

fn script(shell: &str) -> anyhow::Result<Vec<u8>> {
    let shells = Shells::builtins();
    let unknown = || Failure::bad_value(anyhow::anyhow!("shell '{shell}' is not supported"));
    let completer = shells.completer(shell).ok_or_else(unknown)?;
    let mut script = Vec::new();
    // The script names the program without its path, since the script may be part of a package.
    completer.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    Ok(script)
}
