//! Muster over Kubernetes, beside a plain client of the same API server.

mod changes;
mod creates;
mod lists;
mod objects;
mod watched;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use muster_bench::server;
use muster_bench::{machine, run};

/// Muster over Kubernetes, beside a plain client of the same API server
#[derive(Debug, Parser)]
struct Args {
    /// The server to measure instead of that of this tree
    #[arg(long, value_name = "FILE")]
    muster: Option<PathBuf>,
    /// Clusters that are created through Muster, and as many without it
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    creates: u32,
    /// Clusters on the list
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    clusters: u32,
    /// Pods that are watched
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    pods: u32,
    /// Changes of one of these pods
    #[arg(long, value_name = "N", default_value_t = 250)]
    changes: u32,
    /// Run a tenth of everything, for a quick try
    #[arg(long)]
    quick: bool,
    /// Only this part; may be given several times
    #[arg(long, value_name = "PART")]
    only: Vec<KubernetesPart>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KubernetesPart {
    /// Creating clusters
    Creates,
    /// Lists
    Lists,
    /// Memory and idle time with many pods, and the delay of changes
    Watched,
}

/// A time limit that a busy machine does not reach.
const LIMIT: Duration = Duration::from_mins(20);

/// The divisor of `--quick`.
const QUICK: u32 = 10;

fn main() -> Result<()> {
    let Args { muster, creates, clusters, pods, changes, quick, only } = Args::parse();
    let muster = server::program(muster)?;
    machine::report()?;
    let some = |count: u32| if quick { count.div_ceil(QUICK) } else { count };
    let wanted = |part: KubernetesPart| only.is_empty() || only.contains(&part);
    run::run(LIMIT, async {
        if wanted(KubernetesPart::Creates) {
            creates::measure(&muster, some(creates)).await?;
        }
        if wanted(KubernetesPart::Lists) {
            lists::measure(&muster, some(clusters)).await?;
        }
        if wanted(KubernetesPart::Watched) {
            watched::measure(&muster, some(pods), some(changes)).await?;
        }
        Ok(())
    })
}
