//! `cargo xtask testbed`: the real things that tests run against.
//!
//! Every part is made from pins in `testbed/`, into a folder of the cache whose name carries their hash: so
//! changed pins make a new folder, and what is there is not made again. A part that cannot be had is no
//! error here: the inventory says why, and the tests that need it say so too.

mod go;
mod inventory;
mod part;
mod postgres;
mod python;

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};

pub(crate) use inventory::Inventory;

use crate::layout;

#[derive(Debug, Parser)]
pub(crate) struct Testbed {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a Kubernetes with simulated nodes until it is stopped
    Start(Start),
}

#[derive(Debug, Parser)]
struct Start {
    /// Operators to run in it, separated by commas
    #[arg(long, value_name = "NAMES")]
    operators: Option<String>,
    /// How many nodes it has
    #[arg(long, default_value_t = 3)]
    nodes: u32,
    /// Where its kubeconfig and logs go: a new folder, removed at the end (default: one in the temporary folder)
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Testbed {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self { command } = self;
        let inventory = provide()?;
        match command {
            Some(Command::Start(start)) => start.run(),
            None => {
                print!("{}", inventory.table());
                if layout::in_ci() && !inventory.missing.is_empty() {
                    bail!("parts of the testbed are missing, which CI=true does not allow");
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl Start {
    fn run(self) -> Result<ExitCode> {
        let Self { operators, nodes, dir } = self;
        let mut command = std::process::Command::new(runner()?);
        command.arg("--inventory").arg(Inventory::path()?).arg("--nodes").arg(nodes.to_string());
        if let Some(operators) = operators {
            command.arg("--operators").arg(operators);
        }
        if let Some(dir) = dir {
            command.arg("--dir").arg(dir);
        }
        // In our place, so that Ctrl-C and SIGTERM reach the one that has to clean up.
        let error = std::os::unix::process::CommandExt::exec(&mut command);
        Err(error).context("cannot start the testbed")
    }
}

/// Makes whatever is missing, and says what there is.
pub(crate) fn provide() -> Result<Inventory> {
    let folder = layout::cache()?.join("testbed");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let lock = File::create(folder.join("lock"))?;
    if lock.try_lock().is_err() {
        eprintln!(
            "» waiting for another run that is building the testbed (it holds {})",
            folder.join("lock").display()
        );
        lock.lock()?;
    }
    let started = Instant::now();
    let mut inventory = Inventory::default();
    go::provide(&folder, &mut inventory)?;
    python::provide(&folder, &mut inventory)?;
    postgres::provide(&folder, &mut inventory);
    inventory.write()?;
    if started.elapsed().as_secs() > 5 {
        eprintln!("» the testbed took {:.0?}", started.elapsed());
    }
    Ok(inventory)
}

/// The built program that runs the parts: `crates/testkit` has it, since tests share its code.
pub(crate) fn runner() -> Result<PathBuf> {
    let arguments = ["build", "--locked", "--package", "muster-testkit", "--bin", "testbed"];
    crate::step::run("building the testbed's runner", layout::cargo()?.args(arguments))?;
    Ok(layout::target()?.join("debug/testbed"))
}
