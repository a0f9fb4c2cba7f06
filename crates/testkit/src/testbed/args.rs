//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Parser;

use super::folder;
use super::inventory::Inventory;
use super::output::say;
use super::server::{self, Plan};

/// The operators that the testbed can run beside Kubernetes.
const OPERATORS: &[&str] = &[];

/// Runs what tests need (Kubernetes with kwok nodes, PostgreSQL) until it is stopped.
#[derive(Debug, Parser)]
#[command(name = "testbed")]
pub struct Args {
    /// The folder to use: one that does not exist or is empty; a fresh one in the temporary folder by default.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// What there is on this machine, as `cargo xtask testbed start` hands it over.
    #[arg(long, value_name = "FILE")]
    inventory: Option<PathBuf>,
    /// How many kwok nodes Kubernetes gets.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    nodes: u16,
    /// The operators to run, parted by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    operators: Vec<String>,
    /// Start each part when it is first wanted, instead of Kubernetes at once.
    #[arg(long)]
    lazy: bool,
    /// Also stop when standard input ends.
    #[arg(long)]
    until_eof: bool,
    /// Only say whether this command line is a good one.
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
        let Self { dir, inventory, nodes, operators, lazy, until_eof, check } = self;
        check_operators(&operators, OPERATORS)?;
        if check {
            return dir.map_or(Ok(()), |dir| folder::check(&dir));
        }
        let inventory = inventory.context(
            "without an inventory it is not known what this machine has: give --inventory FILE, or use \
             `cargo xtask testbed start`, which does",
        )?;
        let inventory = Inventory::read(&inventory)?;
        // A child dies with the thread that started it: there must be one thread, which lives as long as the process.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(server::run(Plan { dir, inventory, nodes, lazy, until_eof }))
    }
}

fn check_operators(wanted: &[String], known: &[&str]) -> Result<()> {
    if wanted.iter().any(String::is_empty) {
        bail!("--operators has an empty name in it: give names parted by commas, or leave it out");
    }
    let Some(unknown) = wanted.iter().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    if known.is_empty() {
        bail!("there is no operator `{unknown}` in the testbed: it has none yet");
    }
    bail!("there is no operator `{unknown}` in the testbed: it has {}", known.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_operator_is_refused_with_the_known_ones() {
        let wanted = ["kuberay".to_owned()];
        assert!(check_operators(&wanted, &["kuberay", "dask"]).is_ok());
        let refusal = check_operators(&wanted, &["dask", "domino"]).unwrap_err().to_string();
        assert_eq!(refusal, "there is no operator `kuberay` in the testbed: it has dask, domino");
        let refusal = check_operators(&wanted, &[]).unwrap_err().to_string();
        assert_eq!(refusal, "there is no operator `kuberay` in the testbed: it has none yet");
    }

    #[test]
    fn an_operator_without_a_name_is_refused() {
        let refusal = check_operators(&[String::new()], &["dask"]).unwrap_err().to_string();
        assert!(refusal.starts_with("--operators has an empty name in it"), "{refusal}");
    }
}
