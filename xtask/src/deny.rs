//! `cargo deny`: the checks of licences, banned crates and sources; advisories only if their database is reachable.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::lock::FileLock;
use crate::{layout, step};

/// The version of cargo-deny, which is built into the cache.
const VERSION: &str = "0.20.2";

/// The time-out in seconds for fetching the database of advisories: without a network, git waits for minutes.
const PATIENCE: &str = "20";

/// Runs the checks, and returns a note if a part could not be checked.
pub(crate) fn check() -> Result<Option<String>> {
    let program = installed().context("cargo-deny could not be installed")?;
    let mut checks = vec!["bans", "licenses", "sources"];
    let note = if advisories_are_reachable(&program) {
        checks.push("advisories");
        None
    } else {
        Some("advisories: not checked, their database cannot be reached from this machine".to_owned())
    };
    // Crates of other platforms are checked, too, and a fresh machine has not downloaded them yet.
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
    let tools = layout::cache()?.join("tools");
    let folder = tools.join(format!("cargo-deny-{VERSION}"));
    let program = folder.join("bin/cargo-deny");
    std::fs::create_dir_all(&folder)?;
    let _lock = FileLock::take(&tools.join("lock"), "building cargo-deny")?;
    // A separate target folder, so that the workspace's dependencies are not rebuilt with cargo-deny's features.
    let target = folder.join("target");
    if !program.exists() {
        let mut cargo = layout::cargo()?;
        // Built without optimisation, which takes less than half of the time; cargo-deny runs only for seconds.
        cargo.env("CARGO_TARGET_DIR", &target).env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.args(["install", "--debug", "--locked", "--quiet", "--version", VERSION, "--root"]);
        cargo.arg(&folder).arg("cargo-deny");
        let what = format!("building cargo-deny {VERSION} (about 2 minutes, once)");
        step::run_quietly(&what, &mut step::dying_with_us(&cargo), &folder.join("build.log"))?;
    }
    // Also removes the leftovers of a run that was killed between build and removal.
    if target.exists() {
        std::fs::remove_dir_all(target)?;
    }
    Ok(program)
}

fn advisories_are_reachable(program: &Path) -> bool {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE).arg(program).args(["fetch", "db"]).current_dir(layout::root());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
