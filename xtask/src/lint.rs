//! `cargo xtask lint`: format, clippy, words, licences and sources.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::{deny, layout, step, words};

#[derive(Debug, Parser)]
pub(crate) struct Lint {
    /// Only lower the numbers of xtask/words.toml to the retired words that are left
    #[arg(long)]
    update_words: bool,
}

impl Lint {
    pub(crate) const fn compiles(&self) -> bool {
        let Self { update_words } = self;
        !*update_words
    }

    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self { update_words } = self;
        if update_words {
            words::update()?;
            return Ok(ExitCode::SUCCESS);
        }
        fmt()?;
        words::check()?;
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
