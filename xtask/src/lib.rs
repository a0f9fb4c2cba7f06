//! The tasks of development, `cargo xtask NAME`: test, lint, doc, bench, dist. CI runs the same ones.
//!
//! This crate is not part of the product, and contains no tests of it: it builds and runs the tests of the other
//! crates. Begin reading at [`Args`], then one file per task; `test/` is the test runner, and `testbed/` builds the
//! programs that tests need.

mod bench;
mod deny;
mod dist;
mod doc;
mod layout;
mod lint;
mod lock;
pub mod rust_tokens;
mod step;
mod test;
mod testbed;
mod tree;
mod up;
mod words;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Tasks of development
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
    /// Build a release archive with the binary, completions, manual pages and checksum
    Dist(dist::Dist),
    /// Check format, clippy, words, licences and sources
    Lint(lint::Lint),
    /// Build the documentation of every crate, with warnings as errors
    Doc(doc::Doc),
}

impl Task {
    fn compiles(&self) -> bool {
        match self {
            Self::Testbed(task) => task.compiles(),
            Self::Lint(task) => task.compiles(),
            Self::Up(_) | Self::Test(_) | Self::Bench(_) | Self::Dist(_) | Self::Doc(_) => true,
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
            Task::Dist(task) => task.run(),
            Task::Lint(task) => task.run(),
            Task::Doc(task) => task.run(),
        }
    }
}
