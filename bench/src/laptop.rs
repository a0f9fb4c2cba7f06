//! Clusters of a framework by `muster create`, compared with the same processes started without Muster.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use muster_core::cluster::Framework;
use muster_frameworks::LocalFramework;
use tokio::process::Command;

use crate::bare::{self, Bare};
use crate::figures::{at_most, median, milliseconds, ratio, report};
use crate::server::{self, Server};
use crate::{machine, run};

/// A benchmark of a framework on this machine
#[derive(Debug, Parser)]
struct Args {
    /// A Python interpreter that has the framework, such as the one that `cargo xtask testbed` names as python/NAME
    #[arg(long, env = "MUSTER_PYTHON", value_name = "FILE")]
    python: PathBuf,
    /// Rounds, each with and without Muster
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The program to measure instead of that of this tree
    #[arg(long, value_name = "FILE")]
    muster: Option<PathBuf>,
}

/// The number of workers of a cluster.
const WORKERS: usize = 2;

/// The largest ratio of a create to a start without Muster.
const CREATE_AT_MOST: f64 = 1.2;

/// A time limit that a busy machine does not reach.
const LIMIT: Duration = Duration::from_mins(20);

/// Measures a framework. The removal of an idle worker may take `remove_at_most` longer than without Muster.
pub fn main(framework: Framework, remove_at_most: Duration) -> Result<()> {
    let Args { python, rounds, muster } = Args::parse();
    let framework = muster_frameworks::local(framework).context("it does not run as local processes")?;
    let muster = server::program(muster)?;
    machine::report()?;
    run::run(LIMIT, measure(framework, &muster, &python, rounds.max(1), remove_at_most))
}

/// The durations of a create, and of the removal of an idle worker.
struct LaptopRound {
    create: Duration,
    remove: Duration,
}

async fn measure(
    framework: &'static dyn LocalFramework,
    muster: &Path,
    python: &Path,
    rounds: usize,
    remove_at_most: Duration,
) -> Result<()> {
    let folder = server::folder()?;
    let server = Server::start_with(muster, folder.path(), &[("MUSTER_PYTHON", python)]).await?;
    let caller = MusterCommands { muster, data: folder.path(), python };
    let package = bare::package(framework, python).await?;
    // Python compiles modules at their first import, which is not measured.
    by_hand(framework, python, &package).await?;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        bare.push(by_hand(framework, python, &package).await?);
        ours.push(through(framework, &caller, &format!("round-{number}")).await?);
    }
    drop(server);
    println!("{}, a head and {WORKERS} workers, {rounds} rounds in turn", framework.framework());
    let middle =
        |rounds: &[LaptopRound], of: fn(&LaptopRound) -> Duration| median(rounds.iter().map(of).collect());
    let (by_hand, through) = (middle(&bare, |round| round.create), middle(&ours, |round| round.create));
    report("started and awaited by hand", milliseconds(by_hand));
    report("muster create", milliseconds(through));
    at_most("ratio", ratio(through, by_hand), CREATE_AT_MOST, |ratio| format!("{ratio:.2}"));
    let (by_hand, through) = (middle(&bare, |round| round.remove), middle(&ours, |round| round.remove));
    report("an idle worker retired by hand", milliseconds(by_hand));
    at_most("muster scale", through, by_hand + remove_at_most, milliseconds);
    Ok(())
}

async fn by_hand(
    framework: &'static dyn LocalFramework,
    python: &Path,
    package: &str,
) -> Result<LaptopRound> {
    let started = Instant::now();
    let mut cluster = Bare::start(framework, python, package, WORKERS).await?;
    let create = started.elapsed();
    let started = Instant::now();
    cluster.drain_one().await?;
    let remove = started.elapsed();
    cluster.end().await?;
    Ok(LaptopRound { create, remove })
}

async fn through(
    framework: &dyn LocalFramework,
    caller: &MusterCommands<'_>,
    name: &str,
) -> Result<LaptopRound> {
    let (framework, workers) = (framework.framework().to_string(), WORKERS.to_string());
    let create = caller.run(&["create", name, "--framework", &framework, "--workers", &workers]).await?;
    let fewer = (WORKERS - 1).to_string();
    let remove = caller.run(&["scale", name, "--workers", &fewer]).await?;
    caller.run(&["delete", name]).await?;
    Ok(LaptopRound { create, remove })
}

/// Runs commands of Muster.
struct MusterCommands<'p> {
    muster: &'p Path,
    data: &'p Path,
    python: &'p Path,
}

impl MusterCommands<'_> {
    /// Runs a command that must succeed, and returns its duration.
    async fn run(&self, arguments: &[&str]) -> Result<Duration> {
        let mut command = Command::from(server::muster(self.muster));
        command.args(arguments).arg("--data-dir").arg(self.data);
        command.env("MUSTER_NO_AUTOSTART", "1").env("MUSTER_PYTHON", self.python);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let started = Instant::now();
        let said = command.output().await.context("cannot run muster")?;
        ensure!(said.status.success(), "muster {arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
        Ok(started.elapsed())
    }
}
