//! The cost of a shim: the memory that every local node needs in addition to its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use muster_bench::figures::{at_most, median, megabytes, milliseconds, report};
use muster_bench::{machine, run, server};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe::OpenOptions;
use tokio::process::Command;

/// What a shim costs
#[derive(Debug, Parser)]
struct Args {
    /// The program to measure instead of that of this tree
    #[arg(long, value_name = "FILE")]
    muster: Option<PathBuf>,
}

/// The number of shims: a single one would be charged for the program's code, which several share.
const SHIMS: usize = 5;

/// The output of a node before its shim is measured, so that its buffers are in use.
const OUTPUT: &str = "head -c 3000000 /dev/zero";

const MOST: u64 = 4_000_000;

/// A time limit that a busy machine does not reach.
const LIMIT: Duration = Duration::from_mins(1);

fn main() -> Result<()> {
    let Args { muster } = Args::parse();
    let muster = server::program(muster)?;
    machine::report()?;
    let folder = tempfile::Builder::new().prefix("muster-").tempdir()?;
    run::run(LIMIT, measure(&muster, folder.path()))
}

async fn measure(muster: &Path, folder: &Path) -> Result<()> {
    let mut shims = Vec::new();
    for number in 0..SHIMS {
        shims.push(Shim::start(muster, folder, number).await?);
    }
    let mut private = shims.iter().map(Shim::private).collect::<Result<Vec<_>>>()?;
    private.sort_unstable();
    let took = median(shims.iter().map(|shim| shim.took).collect());
    println!("{SHIMS} shims, each with a node that wrote 3 MB");
    report("start to a running command", milliseconds(took));
    report("private memory, the least", megabytes(private[0]));
    at_most("private memory, the most", private[SHIMS - 1], MOST, megabytes);
    Ok(())
}

/// A running shim, which is stopped when this value is dropped.
struct Shim {
    pid: Pid,
    took: Duration,
}

impl Shim {
    /// Starts a shim, and returns once its node has written its output.
    async fn start(muster: &Path, folder: &Path, number: usize) -> Result<Self> {
        let node = format!("00000000-0000-7000-8000-{number:012}");
        let own = folder.join(&node);
        fs::create_dir(&own)?;
        let done = own.join("done");
        mkfifoat(CWD, &done, Mode::RUSR | Mode::WUSR)?;
        let gate = OpenOptions::new().read_write(true).open_receiver(&done)?;
        let order = json!({
            "node": node,
            "folder": own,
            "runtime": folder.join("run"),
            "launch": {
                "generation": 1,
                "command": ["sh", "-c", format!("{OUTPUT}; echo > {}; exec sleep 1000", done.display())],
                "environment": {"PATH": "/usr/bin:/bin"},
                "working_folder": folder,
                "log": {"max_bytes": 1_000_000, "keep": 1},
            },
        });
        let started = Instant::now();
        let mut process = Command::new(muster)
            .args(["shim", &node])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", muster.display()))?;
        let pid = process.id().and_then(|id| Pid::from_raw(id.cast_signed())).context("it has ended")?;
        let mut shim = Self { pid, took: Duration::ZERO };
        process.stdin.take().context("no input")?.write_all(order.to_string().as_bytes()).await?;
        let mut answer = String::new();
        BufReader::new(process.stdout.take().context("no output")?).read_line(&mut answer).await?;
        ensure!(answer.contains("started"), "the shim did not start its node: {answer}");
        shim.took = started.elapsed();
        gate.readable().await?;
        Ok(shim)
    }

    /// The private memory in bytes, as the kernel counts it.
    fn private(&self) -> Result<u64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid.as_raw_pid()))?;
        let private = rollup.lines().filter(|line| line.starts_with("Private_"));
        let kilobytes = private.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        Ok(kilobytes.sum::<u64>() * 1024)
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // The shim stops its node first.
        let _ = kill_process(self.pid, Signal::TERM);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}
