//! The tasks of the house, one name each, the same for a person and for CI.

mod bench;
mod deny;
mod doc;
mod layout;
mod lint;
mod lock;
mod step;
mod test;
mod testbed;
mod tree;
mod up;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The tasks of the house.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build Muster, start it, and print what to type next
    Up(up::Up),
    /// Check format, lints and docs, and run every test
    Test(test::Test),
    /// Provide the real things that tests run against; `start` runs a Kubernetes of them
    Testbed(testbed::Testbed),
    /// Run the benchmarks, which print ratios against a floor measured in the same run
    Bench(bench::Bench),
    /// Check format, clippy, licences and sources
    Lint(lint::Lint),
    /// Build the documentation of every crate, with warnings as errors
    Doc(doc::Doc),
}

impl Task {
    fn compiles(&self) -> bool {
        match self {
            Self::Testbed(task) => task.compiles(),
            Self::Up(_) | Self::Test(_) | Self::Bench(_) | Self::Lint(_) | Self::Doc(_) => true,
        }
    }
}

impl Args {
    /// Runs the task.
    pub fn run(self) -> Result<ExitCode> {
        let Self { task } = self;
        if task.compiles() {
            tree::claim()?;
        }
        match task {
            Task::Up(task) => task.run(),
            Task::Test(task) => task.run(),
            Task::Testbed(task) => task.run(),
            Task::Bench(task) => task.run(),
            Task::Lint(task) => task.run(),
            Task::Doc(task) => task.run(),
        }
    }
}
