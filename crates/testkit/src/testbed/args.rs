//! The command line of the testbed.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Parser;

use super::folder;
use super::inventory::TestbedInventory;
use super::output::say;
use super::server::{self, TestbedPlan};
use crate::Operator;

/// Runs what tests need (Kubernetes with kwok nodes, PostgreSQL) until it is stopped.
#[derive(Debug, Parser)]
#[command(name = "testbed")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Args {
    /// The folder to use: one that does not exist or is empty; a fresh one in the temporary folder by default.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The inventory of this machine, which `cargo xtask testbed start` writes
    #[arg(long, value_name = "FILE")]
    inventory: Option<PathBuf>,
    /// The number of kwok nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    nodes: u16,
    /// The operators to run in it, parted by commas: kuberay, domino, dask.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    operators: Vec<String>,
    /// Let etcd sync every write to the disk, as in production
    #[arg(long)]
    fsync: bool,
    /// Start each part at its first request, instead of Kubernetes at once
    #[arg(long)]
    lazy: bool,
    /// Also stop when standard input ends.
    #[arg(long)]
    until_eof: bool,
    /// Only check this command line
    #[arg(long)]
    check: bool,
}

impl Args {
    /// Runs the testbed to its end.
    pub fn run(self) -> ExitCode {
        match self.serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say!("testbed: {error:#}");
                ExitCode::FAILURE
            }
        }
    }

    fn serve(self) -> Result<()> {
        let Self { dir, inventory, nodes, operators, fsync, lazy, until_eof, check } = self;
        let operators = operators_named(&operators)?;
        if check {
            return dir.map_or(Ok(()), |dir| folder::check(&dir));
        }
        let inventory = inventory.context(
            "without an inventory it is not known what this machine has: give --inventory FILE, or use \
             `cargo xtask testbed start`, which does",
        )?;
        let inventory = TestbedInventory::read(&inventory)?;
        // A child dies with the thread that started it, so that there must be one thread that lives as long as the
        // process.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(server::run(TestbedPlan {
            dir,
            inventory,
            nodes,
            operators,
            fsync,
            lazy,
            until_eof,
        }))
    }
}

fn operators_named(names: &[String]) -> Result<Vec<Operator>> {
    if names.iter().any(String::is_empty) {
        bail!("--operators has an empty name in it: give names parted by commas, or leave it out");
    }
    let known = || Operator::ALL.map(Operator::name).join(", ");
    let named = |name: &String| {
        Operator::named(name)
            .with_context(|| format!("there is no operator `{name}` in the testbed: it has {}", known()))
    };
    names.iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_have_names() {
        let names = ["dask", "kuberay", "domino"].map(str::to_owned);
        let operators = operators_named(&names).unwrap();
        assert_eq!(operators, [Operator::Dask, Operator::KubeRay, Operator::Domino]);
    }

    #[test]
    fn an_unknown_operator_is_refused_with_the_known_ones() {
        let refusal = operators_named(&["moon".to_owned()]).unwrap_err().to_string();
        assert_eq!(refusal, "there is no operator `moon` in the testbed: it has kuberay, domino, dask");
    }

    #[test]
    fn an_operator_without_a_name_is_refused() {
        let refusal = operators_named(&[String::new()]).unwrap_err().to_string();
        assert!(refusal.starts_with("--operators has an empty name in it"), "{refusal}");
    }
}
