//! `cargo xtask bench [NAME]`: the benchmarks of `bench/`, in release builds.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};
use clap::Parser;

use crate::{layout, step};

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
            step::run(&format!("benchmark {bench}"), program.current_dir(layout::root()).args(&arguments))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Builds them, and beside them what they measure.
fn build(benchmarks: &[&String]) -> Result<()> {
    let mut cargo = layout::cargo()?;
    // Of the whole workspace, or libraries of others would be built again for the fewer features of one package.
    cargo.args(["build", "--release", "--locked", "--workspace", "--bin", "muster"]);
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
