//! Python environments: every file `crates/frameworks/pins/NAME.txt` gives one, with exactly the pinned packages, the
//! same that users install. The files `testbed/python/NAME.txt` are for programs that users have already: clients, and
//! the Dask operator.

use std::env::consts::{ARCH, OS};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::Inventory;
use super::manifests;
use super::part::{CachedPart, scratch};
use crate::lock::FileLock;
use crate::step::StepFailure;
use crate::{layout, step};

/// The interpreter in an environment.
const INTERPRETER: &str = "bin/python";

pub(super) fn provide(testbed: &Path, inventory: &mut Inventory) -> Result<()> {
    let python = step::version_of("python3", "--version");
    for pins in files()? {
        let name = pins.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let outcome = python
            .as_deref()
            .context("needs Python 3, and `python3` was not found")
            .and_then(|python| environment(testbed, &pins, &name, python));
        match outcome {
            Ok((folder, lock)) => {
                inventory.crds.extend(manifests::of_dask(&folder).map(|crds| ("dask".to_owned(), crds)));
                inventory.python.insert(name, folder.join(INTERPRETER));
                inventory.in_use.push(lock);
            }
            Err(error) => inventory.lack(vec![format!("python/{name}")], &error),
        }
    }
    Ok(())
}

/// The folders with pins: of frameworks, and of other packages for tests.
const FOLDERS: [&str; 2] = ["crates/frameworks/pins", "testbed/python"];

fn files() -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in FOLDERS.map(|folder| layout::root().join(folder)).iter().filter(|folder| folder.exists()) {
        let entries = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
        files.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "txt")));
    }
    files.sort();
    Ok(files)
}

fn environment(testbed: &Path, pins: &Path, name: &str, python: &str) -> Result<(PathBuf, FileLock)> {
    let text = std::fs::read(pins)?;
    let ingredients = [&text, minor(python).as_bytes(), OS.as_bytes(), ARCH.as_bytes()];
    let part = CachedPart::new(testbed, &format!("python-{name}"), &ingredients);
    let lock = part.make(&[INTERPRETER], |folder| {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(folder).env("TMPDIR", scratch(folder));
        let what = format!("making the Python environment '{name}'");
        step::run_quietly(&what, &mut step::dying_with_us(&venv), &part.log())?;
        let mut pip = Command::new(folder.join(INTERPRETER));
        pip.args(["-m", "pip", "install", "--no-input", "--no-deps", "--only-binary", ":all:"]);
        pip.arg("--requirement").arg(pins).env("TMPDIR", scratch(folder));
        // The build dependencies of source packages are pinned, too. Only the name of the file is given, because pip
        // splits the variable at spaces, which the folder may contain.
        if let (Some(at), Some(file)) = (pins.parent(), pins.file_name()) {
            pip.current_dir(at).env("PIP_BUILD_CONSTRAINT", file).env("PIP_CONSTRAINT", file);
        }
        let what = format!("installing the packages of the Python environment '{name}'");
        step::run_quietly(&what, &mut step::dying_with_us(&pip), &part.log())
            .map_err(|error| StepFailure::needing(error, "Python packages"))
    })?;
    Ok((part.folder(), lock))
}

/// `3.11` of `Python 3.11.9`: packages are built for a minor version, so that a new patch version needs no new
/// environment.
fn minor(version: &str) -> &str {
    let number = version.split_whitespace().last().unwrap_or_default();
    number.match_indices('.').nth(1).map_or(number, |(at, _)| &number[..at])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("Python 3.11.9", "3.11")]
    #[case("Python 3.14.0rc1", "3.14")]
    #[case("Python 3.15", "3.15")]
    fn an_environment_is_of_a_minor_version(#[case] version: &str, #[case] expected: &str) {
        assert_eq!(minor(version), expected);
    }
}
