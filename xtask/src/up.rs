//! `cargo xtask up`: build Muster, start it with the embedded defaults, and print what to type next.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use clap::Parser;

use crate::{layout, step};

#[derive(Debug, Parser)]
pub(crate) struct Up {
    /// Build with optimisation, which takes several minutes the first time
    #[arg(long)]
    release: bool,
    /// Passed on to `muster serve`
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Up {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self { release, arguments } = self;
        let mut cargo = layout::cargo()?;
        cargo.args(["build", "--locked", "--workspace", "--bin", "muster"]);
        if release {
            // As `cargo xtask bench` builds it.
            cargo.args(["--release", "--features", "muster-cli/jemalloc"]);
        }
        step::run("building muster", &mut cargo)?;
        let profile = if release { "release" } else { "debug" };
        let muster = layout::target()?.join(profile).join("muster");
        print!("{}", hints(&muster));
        let mut serve = Command::new(&muster);
        serve.arg("serve").args(arguments);
        // Replaces this process, so that Ctrl-C and SIGTERM reach the server.
        Err(serve.exec()).context("cannot start muster")
    }
}

/// The hints for another terminal.
fn hints(muster: &Path) -> String {
    format!(
        "\nMuster starts now. Ctrl-C stops it; clusters keep running, and the next server finds them. \
         In another terminal:\n\n    \
         alias muster={}\n    \
         muster framework install dask       # once, unless your Python has it\n    \
         muster create fred --workers 2      # a scheduler and two workers\n    \
         muster get fred -o wide             # where to connect, and the dashboard\n\n",
        muster.display()
    )
}
