//! Python environments: every file `testbed/python/NAME.txt` is one, with exactly what it pins.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::Inventory;
use super::part::Part;
use crate::{layout, step};

pub(super) fn provide(testbed: &Path, inventory: &mut Inventory) -> Result<()> {
    let python = step::version_of("python3", "--version");
    let mut files: Vec<PathBuf> = std::fs::read_dir(layout::root().join("testbed/python"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    for pins in files {
        let name = pins.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let outcome = match &python {
            Some(python) => environment(testbed, &pins, &name, python),
            None => Err(anyhow::anyhow!("needs Python 3, and `python3` was not found")),
        };
        match outcome {
            Ok(interpreter) => drop(inventory.python.insert(name, interpreter)),
            Err(error) => drop(inventory.missing.insert(format!("python/{name}"), format!("{error:#}"))),
        }
    }
    Ok(())
}

fn environment(testbed: &Path, pins: &Path, name: &str, python: &str) -> Result<PathBuf> {
    let part = Part::new(testbed, &format!("python-{name}"), &[&std::fs::read(pins)?, python.as_bytes()]);
    let interpreter = part.folder.join("bin/python");
    let log = testbed.join(format!("python-{name}.log"));
    part.make(|folder| {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(folder);
        step::run_quietly(&format!("making the Python environment '{name}'"), &mut venv, &log)?;
        let mut pip = Command::new(&interpreter);
        pip.args([
            "-m",
            "pip",
            "install",
            "--no-input",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--requirement",
        ])
        .arg(pins);
        step::run_quietly(&format!("installing the packages of '{name}'"), &mut pip, &log)
    })?;
    Ok(interpreter)
}
