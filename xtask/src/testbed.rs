//! `cargo xtask testbed`: the real programs that tests run against.
//!
//! Every part is built from pins in `testbed/`, or for Python in `crates/frameworks/pins`, into a folder of the cache
//! whose name contains the hash of the pins: changed pins give a new folder, and an existing part is not rebuilt. A
//! part that is not available is no error here: the inventory has the reason, which the skipped tests report, too.

mod go;
mod inventory;
mod manifests;
mod part;
mod postgres;
mod python;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};

pub(crate) use inventory::Inventory;

use crate::lock::FileLock;
use crate::{layout, step};

#[derive(Debug, Parser)]
pub(crate) struct Testbed {
    #[command(subcommand)]
    task: Option<TestbedTask>,
}

#[derive(Debug, Subcommand)]
enum TestbedTask {
    /// Run a Kubernetes with simulated nodes until it is stopped
    Start(Start),
}

#[derive(Debug, Parser)]
struct Start {
    /// Operators to run in it, separated by commas
    #[arg(long, value_name = "NAMES")]
    operators: Option<OsString>,
    /// How many nodes it has (default: 3)
    #[arg(long, value_name = "N")]
    nodes: Option<OsString>,
    /// Have its etcd wait for the disk with every write
    #[arg(long)]
    fsync: bool,
    /// Where its kubeconfig and logs go: a new folder, removed at the end (default: one in the temporary folder)
    #[arg(long)]
    dir: Option<OsString>,
}

impl Testbed {
    /// Returns true if the task compiles a crate of the workspace: `start` needs the testbed's runner.
    pub(crate) fn compiles(&self) -> bool {
        self.task.is_some()
    }

    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self { task } = self;
        if let Some(TestbedTask::Start(start)) = task {
            return start.run();
        }
        let inventory = provide()?;
        print!("{}", inventory.table());
        if layout::in_ci() && inventory.is_incomplete() {
            bail!("parts of the testbed are missing, which CI=true does not allow");
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Start {
    fn run(self) -> Result<ExitCode> {
        let runner = runner()?;
        let arguments = self.arguments();
        // Let the runner check the arguments before minutes are spent on building parts.
        let checked = Command::new(&runner).arg("--check").args(&arguments).status();
        if !checked.context("cannot start the testbed's runner")?.success() {
            return Ok(ExitCode::FAILURE);
        }
        let inventory = provide()?;
        if inventory.is_incomplete() {
            eprint!("{}", inventory.table());
        }
        let inventory_file = inventory.write_to_memory()?;
        // Replaces this process, so that Ctrl-C and SIGTERM reach the runner, which cleans up.
        let error = Command::new(runner).arg("--inventory").arg(inventory_file.path()).args(arguments).exec();
        Err(error).context("cannot start the testbed's runner")
    }

    fn arguments(self) -> Vec<OsString> {
        let Self { operators, nodes, fsync, dir } = self;
        let flags = [("--operators", operators), ("--nodes", nodes), ("--dir", dir)];
        let flags = flags.into_iter().filter_map(|(flag, value)| Some([flag.into(), value?])).flatten();
        flags.chain(fsync.then(|| "--fsync".into())).collect()
    }
}

/// Builds missing parts, and returns the inventory.
pub(crate) fn provide() -> Result<Inventory> {
    let folder = layout::cache()?.join("testbed");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let _lock = FileLock::take(&folder.join("lock"), "building the testbed")?;
    let started = Instant::now();
    let mut inventory = Inventory::default();
    go::provide(&folder, &mut inventory)?;
    python::provide(&folder, &mut inventory)?;
    postgres::provide(&folder, &mut inventory);
    if started.elapsed().as_secs() > 5 {
        eprintln!("» the testbed took {:.0?}", started.elapsed());
    }
    Ok(inventory)
}

/// Builds the program that runs the parts; it is in `crates/testkit`, because tests share its code.
fn runner() -> Result<PathBuf> {
    // Built for the whole workspace: for one package, libraries would be rebuilt with fewer features.
    let arguments = ["build", "--locked", "--workspace", "--bin", "testbed"];
    step::run("building the testbed's runner", layout::cargo()?.args(arguments))?;
    Ok(layout::target()?.join("debug/testbed"))
}
