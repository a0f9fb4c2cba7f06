//! `cargo xtask dist`: a release archive with the binary, licence, documents, completions and manual pages; and its
//! checksum.

mod linking;
mod package;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::Parser;

use crate::{layout, step};
use linking::Linking;
use package::ArchiveContent;

/// The folder of archives, below the top of the tree.
const FOLDER: &str = "target/dist";

#[derive(Debug, Parser)]
pub(crate) struct Dist {}

impl Dist {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self {} = self;
        let target = host()?;
        let muster = build(&target)?;
        let linking = Linking::of(&std::fs::read(&muster)?);
        resolves_names(&muster)?;
        let root = layout::root();
        let package = ArchiveContent {
            version: env!("CARGO_PKG_VERSION"),
            target: &target,
            root: &root,
            muster: &muster,
        };
        let archive = package.write(&root.join(FOLDER))?;
        println!("{}", archive.display());
        println!("the binary is {linking}");
        Ok(ExitCode::SUCCESS)
    }
}

/// The platform that this cargo compiles for.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output =
        Command::new(rustc).arg("-vV").stdin(Stdio::null()).output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).with_context(|| format!("rustc -vV names no host: {text}"))
}

/// Builds the binary, statically linked, so that it runs on every Linux with this processor architecture.
fn build(target: &str) -> Result<PathBuf> {
    let mut cargo = layout::cargo()?;
    // With an explicit target the flags do not apply to build scripts and macros, which must be loadable.
    cargo.args(["build", "--release", "--locked", "--package", "muster-cli", "--bin", "muster"]);
    cargo.args(["--features", "jemalloc", "--target", target]);
    cargo.env(rustflags_variable(target), "-C target-feature=+crt-static");
    step::run("building muster, optimised and statically linked", &mut cargo)?;
    Ok(layout::target()?.join(target).join("release/muster"))
}

/// The environment variable with the compiler's flags for a target.
fn rustflags_variable(target: &str) -> String {
    format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase().replace('-', "_"))
}

/// Checks that the binary runs and resolves a host name, which may fail at run time with a statically linked libc.
fn resolves_names(muster: &Path) -> Result<()> {
    let mut command = Command::new(muster);
    // Nothing listens on port 9, so that every error except a failed name resolution is a success.
    command.args(["whoami", "--server", "http://localhost:9"]).env("MUSTER_NO_AUTOSTART", "1");
    let output = command.stdin(Stdio::null()).output().context("the binary does not run")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("lookup") || said.contains("resolve") || !said.contains("localhost") {
        bail!("the binary cannot find the address of localhost: {said}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_for_the_named_target_alone() {
        let expected = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS";
        assert_eq!(rustflags_variable("x86_64-unknown-linux-gnu"), expected);
    }

    #[test]
    fn rustc_names_its_host() {
        assert!(host().unwrap().contains("linux"));
    }
}
