//! `cargo xtask bench [NAME]`: the benchmarks of `bench/`, in release builds.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};
use clap::Parser;

use crate::test::folder::RunFolder;
use crate::test::supervisor::TestbedSupervisor;
use crate::{layout, step, testbed};

/// Benchmarks that need the testbed; the others need only the server.
const ON_TESTBED: &[&str] = &["kubernetes", "machines", "scaler"];

#[derive(Debug, Parser)]
pub(crate) struct Bench {
    /// Only this benchmark
    name: Option<String>,
    /// Passed on to the benchmark
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Bench {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self { name, arguments } = self;
        let known = benchmarks()?;
        let chosen: Vec<&String> =
            known.iter().filter(|bench| name.as_ref().is_none_or(|name| name == *bench)).collect();
        if chosen.is_empty() {
            match name {
                Some(name) => bail!("there is no benchmark '{name}'; there are: {}", known.join(", ")),
                None => bail!("there are no benchmarks yet: each is a file in bench/src/bin"),
            }
        }
        build(&chosen)?;
        for bench in chosen {
            let mut program = Command::new(layout::target()?.join("release").join(bench));
            program.current_dir(layout::root()).args(&arguments);
            let what = format!("benchmark {bench}");
            if needs_testbed(bench) {
                on_testbed(|bed| step::run(&what, program.env("MUSTER_TESTBED", bed)))?;
            } else {
                step::run(&what, &mut program)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn needs_testbed(bench: &str) -> bool {
    ON_TESTBED.contains(&bench)
}

/// Runs a benchmark on the running testbed, or on a new one.
fn on_testbed(bench: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if let Some(running) = std::env::var_os("MUSTER_TESTBED") {
        return bench(Path::new(&running));
    }
    let inventory = testbed::provide()?;
    let folder = RunFolder::make(&std::env::temp_dir())?;
    let supervisor =
        TestbedSupervisor::start(&layout::target()?.join("release/testbed"), inventory, &folder)?;
    let ran = bench(supervisor.testbed());
    let stopped = supervisor.stop();
    ran.and(stopped)
}

/// Builds the benchmarks and the programs that they measure.
fn build(benchmarks: &[&String]) -> Result<()> {
    let mut cargo = layout::cargo()?;
    // Built for the whole workspace: for one package, libraries would be rebuilt with fewer features.
    cargo.args(["build", "--release", "--locked", "--workspace", "--bin", "muster"]);
    cargo.args(["--features", "muster-cli/jemalloc"]);
    if benchmarks.iter().any(|bench| needs_testbed(bench)) {
        cargo.args(["--bin", "testbed"]);
    }
    for bench in benchmarks {
        cargo.args(["--bin", bench]);
    }
    step::run("building what is measured, and what measures", &mut cargo)
}

fn benchmarks() -> Result<Vec<String>> {
    let folder = layout::root().join("bench/src/bin");
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut names: Vec<String> = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    Ok(names)
}
