//! `cargo xtask <task>`: everything a person or CI runs.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match xtask::Args::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
