//! The paths of the tree, and of the cache outside of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

/// The top of the tree.
pub(crate) fn root() -> PathBuf {
    // Prefer the value at run time, which cargo sets: that of the build would point a copied binary at the old tree.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or(manifest.clone(), Path::to_path_buf)
}

/// The cache, which outlives the tree: compiled crates, testbed, tools.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute()) {
        Some(path) => PathBuf::from(path),
        None => {
            let home = std::env::var_os("HOME")
                .context("neither XDG_CACHE_HOME nor HOME is set: where may caches go?")?;
            PathBuf::from(home).join(".cache")
        }
    };
    Ok(base.join("muster"))
}

/// The target folder of cargo, except for xtask itself.
pub(crate) fn target() -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|path| !path.is_empty()) {
        // Relative to the current folder, as for the cargo that runs xtask; nested cargos start at the top of the tree.
        Some(path) => Ok(std::path::absolute(path)?),
        None => Ok(cache()?.join("target")),
    }
}

/// A cargo command that runs at the top of the tree and builds into the cache.
pub(crate) fn cargo() -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).env("CARGO_TARGET_DIR", target()?);
    // Trees that share the cache share the output of build scripts; the variable sets this tree's commit.
    if let Some(commit) = commit() {
        command.env("MUSTER_COMMIT", commit);
    }
    // These variables describe the build of xtask; a nested cargo must not inherit them.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// The commit of this tree.
fn commit() -> Option<String> {
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "--short=12", "HEAD"]).current_dir(root()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// Returns true in CI, where a skipped test is a failure.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}
