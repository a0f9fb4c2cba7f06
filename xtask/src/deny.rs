//! `cargo deny`: licences, banned crates and sources always; advisories where their database can be had.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::{layout, step};

/// The cargo-deny that checks us, built into the cache.
const VERSION: &str = "0.20.2";

/// Checks, and says which part could not be checked here.
pub(crate) fn check() -> Result<Option<String>> {
    let program = installed().context("cargo-deny could not be installed")?;
    let mut checks = vec!["bans", "licenses", "sources"];
    let note = if advisories_are_reachable(&program) {
        checks.push("advisories");
        None
    } else {
        Some("advisories: not checked, their database cannot be reached from this machine".to_owned())
    };
    // Crates of other platforms are looked at too, and a fresh machine has not downloaded those yet.
    step::run("fetching all crates", layout::cargo()?.args(["fetch", "--locked", "--quiet"]))?;
    let mut command = Command::new(&program);
    command.current_dir(layout::root()).args(["--offline", "check", "--hide-inclusion-graph"]).args(&checks);
    step::run(&format!("cargo deny: {}", checks.join(", ")), &mut command)?;
    if let Some(note) = &note {
        eprintln!("  {note}");
    }
    Ok(note)
}

fn installed() -> Result<PathBuf> {
    let folder = layout::cache()?.join("tools").join(format!("cargo-deny-{VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if program.exists() {
        return Ok(program);
    }
    std::fs::create_dir_all(&folder)?;
    let mut cargo = layout::cargo()?;
    // Its own dependencies are built elsewhere, so that ours are not rebuilt for its features.
    cargo.env("CARGO_TARGET_DIR", folder.join("target")).args([
        "install",
        "--locked",
        "--quiet",
        "--version",
        VERSION,
        "--root",
    ]);
    cargo.arg(&folder).arg("cargo-deny");
    step::run_quietly(
        &format!("building cargo-deny {VERSION} (about 3 minutes, once)"),
        &mut cargo,
        &folder.join("build.log"),
    )?;
    std::fs::remove_dir_all(folder.join("target"))?;
    Ok(program)
}

fn advisories_are_reachable(program: &PathBuf) -> bool {
    let mut command = Command::new(program);
    command.current_dir(layout::root()).args(["fetch", "db"]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
