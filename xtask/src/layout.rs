//! The paths of the tree, and of the cache outside of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

/// The top of the tree.
pub(crate) fn root() -> PathBuf {
    // Set at build time, so a copied binary would point at the old tree: cargo sets it again when it runs us.
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

/// The folder for what cargo compiles, apart from xtask itself.
pub(crate) fn target() -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|path| !path.is_empty()) {
        // From here, as the cargo that runs us understood it; the cargos that we run start at the top of the tree.
        Some(path) => Ok(std::path::absolute(path)?),
        None => Ok(cache()?.join("target")),
    }
}

/// A cargo that builds into the cache, at the top of the tree.
pub(crate) fn cargo() -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).env("CARGO_TARGET_DIR", target()?);
    // Trees that share the cache share what build scripts found out; said from here it is this tree's commit.
    if let Some(commit) = commit() {
        command.env("MUSTER_COMMIT", commit);
    }
    // Cargo describes xtask's own build in these; a nested cargo must not take them for its own.
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

/// Whether this is CI, where a skip is a failure.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}
