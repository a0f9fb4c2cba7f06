//! `cargo xtask lint`: format, clippy, licences and sources.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::{deny, layout, step};

#[derive(Debug, Parser)]
pub(crate) struct Lint {}

impl Lint {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self {} = self;
        fmt()?;
        clippy()?;
        deny::check()?;
        Ok(ExitCode::SUCCESS)
    }
}

pub(crate) fn fmt() -> Result<()> {
    step::run("format (cargo fmt --check)", layout::cargo()?.args(["fmt", "--all", "--check"]))
}

pub(crate) fn clippy() -> Result<()> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    step::run("clippy, warnings are errors", layout::cargo()?.args(arguments))
}
