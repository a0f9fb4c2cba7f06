//! `cargo xtask doc`: builds the documentation of every crate.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::{layout, step};

#[derive(Debug, Parser)]
pub(crate) struct Doc {
    /// Open it in a browser
    #[arg(long)]
    open: bool,
}

impl Doc {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self { open } = self;
        build(open)?;
        Ok(ExitCode::SUCCESS)
    }
}

pub(crate) fn build(open: bool) -> Result<()> {
    let mut cargo = layout::cargo()?;
    cargo.args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings");
    if open {
        cargo.arg("--open");
    }
    step::run("documentation, warnings are errors", &mut cargo)
}
