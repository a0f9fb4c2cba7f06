//! What a shim costs: the memory that every node pays for beside its own.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use muster_bench::figures::{at_most, median, megabytes, milliseconds, tell};
use muster_bench::server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// What a shim costs
#[derive(Debug, Parser)]
struct Args {
    /// The program to measure, instead of this tree's
    #[arg(long, value_name = "FILE")]
    muster: Option<PathBuf>,
}

/// Shims at once: the program's code is private to one that is alone.
const SHIMS: usize = 5;

/// How much its node writes before it is measured: buffers count once they were used.
const OUTPUT: &str = "head -c 3000000 /dev/zero; echo; echo measured";

const LIMIT: u64 = 4_000_000;

fn main() -> Result<()> {
    let Args { muster } = Args::parse();
    let muster = server::program(muster)?;
    let folder = tempfile::Builder::new().prefix("muster-").tempdir()?;
    let shims =
        (0..SHIMS).map(|number| Shim::start(&muster, folder.path(), number)).collect::<Result<Vec<_>>>()?;
    let mut private = shims.iter().map(Shim::private).collect::<Result<Vec<_>>>()?;
    private.sort_unstable();
    println!("{SHIMS} shims, each with a node that wrote 3 MB");
    tell(
        "start to a running command, median",
        milliseconds(median(shims.iter().map(|shim| shim.took).collect())),
    );
    tell("private memory, least", megabytes(private.first().copied().unwrap_or_default()));
    at_most("private memory, most", private.last().copied().unwrap_or_default(), LIMIT, megabytes);
    Ok(())
}

/// A running shim, which ends with this value.
struct Shim {
    process: Child,
    took: Duration,
}

impl Shim {
    fn start(muster: &Path, folder: &Path, number: usize) -> Result<Self> {
        let node = format!("00000000-0000-7000-8000-{number:012}");
        let own = folder.join(&node);
        fs::create_dir(&own)?;
        let done = own.join("done");
        ensure!(Command::new("mkfifo").arg(&done).status()?.success(), "no pipe");
        let script = format!("{OUTPUT}; echo > {}; exec sleep 1000", done.display());
        let order = json!({
            "node": node,
            "folder": own,
            "runtime": folder.join("run"),
            "launch": {
                "generation": 1,
                "command": ["sh", "-c", script],
                "environment": {"PATH": "/usr/bin:/bin"},
                "working_folder": folder,
                "log": {"max_bytes": 1_000_000, "keep": 1},
            },
        });
        let started = std::time::Instant::now();
        let mut process = Command::new(muster)
            .args(["shim", &node])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", muster.display()))?;
        process.stdin.take().context("no input")?.write_all(order.to_string().as_bytes())?;
        let mut answer = String::new();
        BufReader::new(process.stdout.take().context("no output")?).read_line(&mut answer)?;
        let shim = Self { process, took: started.elapsed() };
        ensure!(answer.contains("started"), "the shim did not start its node: {answer}");
        // All of the output was taken by the shim once the node gets this far, but for what the pipe holds.
        fs::read(done)?;
        Ok(shim)
    }

    /// Its private memory in bytes, as the kernel counts it.
    fn private(&self) -> Result<u64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process.id()))?;
        let private = rollup.lines().filter(|line| line.starts_with("Private_"));
        let kilobytes = private.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        Ok(kilobytes.sum::<u64>() * 1024)
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // It ends its node first.
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        drop(self.process.wait());
    }
}
