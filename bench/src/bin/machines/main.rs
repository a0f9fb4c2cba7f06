//! Machines of a Kubernetes: hand-over, reviews and passes, compared with a plain client and the scheduler alone.

mod hand_over;
mod passes;
mod reviews;
mod site;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use muster_bench::{machine, run, server};

/// Machines of a Kubernetes, beside what a plain client and the scheduler do alone
#[derive(Debug, Parser)]
struct Args {
    /// The server to measure instead of that of this tree
    #[arg(long, value_name = "FILE")]
    muster: Option<PathBuf>,
    /// Nodes of the large Machine
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    nodes: u32,
    /// Types of the large Machine
    #[arg(long, value_name = "N", default_value_t = 100)]
    types: u32,
    /// Only this part; may be given several times
    #[arg(long, value_name = "PART")]
    only: Vec<MachinesPart>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MachinesPart {
    /// Guests that get a slot, one by one and 50 at once
    HandOver,
    /// Reviews of guests
    Reviews,
    /// Passes over a large Machine, and the idle time between them
    Passes,
}

/// A time limit that a busy machine does not reach.
const LIMIT: Duration = Duration::from_mins(20);

fn main() -> Result<()> {
    let Args { muster, nodes, types, only } = Args::parse();
    let muster = server::program(muster)?;
    machine::report()?;
    let is_wanted = |part: MachinesPart| only.is_empty() || only.contains(&part);
    run::run(LIMIT, async {
        if is_wanted(MachinesPart::HandOver) || is_wanted(MachinesPart::Reviews) {
            let site = site::MachinesSite::start(&muster).await?;
            hand_over::prepare(&site).await?;
            if is_wanted(MachinesPart::HandOver) {
                hand_over::measure(&site).await?;
            }
            if is_wanted(MachinesPart::Reviews) {
                reviews::measure(&site).await?;
            }
        }
        if is_wanted(MachinesPart::Passes) {
            passes::measure(&muster, nodes, types).await?;
        }
        Ok(())
    })
}
