//! `muster man`: writes the manual pages; used by packages.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser};

use crate::output;

/// Write the manual pages into a folder, one for each command
#[derive(Debug, Parser)]
#[command(hide = true)]
pub(crate) struct Man {
    /// The folder; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> ExitCode {
        let Self { folder } = self;
        output::exit(write(&folder).map(|()| ExitCode::SUCCESS))
    }
}

fn write(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(crate::Args::command(), folder))
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))
}
