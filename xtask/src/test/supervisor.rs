//! The testbed of one test run: started before the first test, its parts on first use, gone at the end.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::outcome::{self, Outcome, Skip};
use crate::layout;

/// Runs test programs, with a testbed beside them if any of them needs one.
pub(super) struct Supervisor {
    testbed: Option<RunningTestbed>,
    skips: PathBuf,
}

/// The process that owns the real things. It ends when its standard input does, so also when we are killed.
struct RunningTestbed {
    process: Child,
    folder: PathBuf,
    inventory: PathBuf,
}

impl Supervisor {
    pub(super) fn without_testbed() -> Result<Self> {
        Ok(Self { testbed: None, skips: skips_file()? })
    }

    pub(super) fn with_testbed(program: &Path, inventory: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["--lazy", "--until-eof", "--inventory"]).arg(inventory);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the testbed")?;
        let output = process.stdout.take().context("the testbed has no output")?;
        let mut lines = BufReader::new(output);
        let folder = announced_folder(&mut lines)?;
        // Whatever else it says is for the reader of this run.
        std::thread::spawn(move || {
            let mut rest = String::new();
            while lines.read_line(&mut rest).is_ok_and(|count| count > 0) {
                print!("{rest}");
                rest.clear();
            }
        });
        let testbed = RunningTestbed { process, folder, inventory: inventory.to_owned() };
        Ok(Self { testbed: Some(testbed), skips: skips_file()? })
    }

    /// Runs one test program in its package's folder, as cargo would.
    pub(super) fn run(&self, program: &Path, folder: &Path, filter: Option<&str>) -> Result<Outcome> {
        let mut command = Command::new(program);
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).env("MUSTER_TEST_SKIPS", &self.skips);
        command.env("CARGO_TARGET_DIR", layout::target()?);
        if let Some(testbed) = &self.testbed {
            command
                .env("MUSTER_TESTBED", &testbed.folder)
                .env("MUSTER_TESTBED_INVENTORY", &testbed.inventory);
        }
        outcome::of_tests(command.args(filter))
    }

    /// Stops the testbed and tells what was skipped.
    pub(super) fn stop(self) -> Result<Vec<Skip>> {
        let Self { testbed, skips } = self;
        let text = std::fs::read_to_string(&skips).unwrap_or_default();
        if skips.exists() {
            std::fs::remove_file(&skips)?;
        }
        if let Some(RunningTestbed { mut process, folder, inventory: _ }) = testbed {
            drop(process.stdin.take());
            let status = process.wait()?;
            if !status.success() {
                bail!("the testbed ended with {status}");
            }
            if folder.exists() {
                bail!("the testbed left {} behind", folder.display());
            }
        }
        Ok(outcome::skips(&text))
    }
}

fn skips_file() -> Result<PathBuf> {
    let folder = layout::cache()?;
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("skips-{}", std::process::id())))
}

/// Reads up to the line `export MUSTER_TESTBED=FOLDER`.
fn announced_folder(lines: &mut impl BufRead) -> Result<PathBuf> {
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        if let Some(folder) = line.trim().strip_prefix("export MUSTER_TESTBED=") {
            return Ok(PathBuf::from(folder));
        }
        print!("{line}");
        line.clear();
    }
    let mut rest = String::new();
    lines.read_to_string(&mut rest)?;
    bail!("the testbed ended before it was ready\n{rest}")
}
