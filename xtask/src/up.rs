//! `cargo xtask up`: build Muster and print what to type next.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::{layout, step};

#[derive(Debug, Parser)]
pub(crate) struct Up {}

impl Up {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self {} = self;
        let mut cargo = layout::cargo()?;
        step::run("building muster", cargo.args(["build", "--locked", "--package", "muster-cli"]))?;
        let muster = layout::target()?.join("debug/muster");
        println!("Built. Try:\n\n    {} version", muster.display());
        Ok(ExitCode::SUCCESS)
    }
}
