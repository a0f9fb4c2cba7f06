//! The testbed of one run of tests or benchmarks, which starts its parts at their first use and is stopped at the end.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::folder::RunFolder;
use crate::testbed::Inventory;

/// The testbed's process, which ends with its standard input, and therefore also if xtask is killed.
pub(crate) struct TestbedSupervisor {
    process: Child,
    testbed: PathBuf,
    // Keeps the parts from being removed while the testbed may start them.
    _inventory: Inventory,
}

impl TestbedSupervisor {
    pub(crate) fn start(runner: &Path, inventory: Inventory, folder: &RunFolder) -> Result<Self> {
        // A copy, because a run in another tree that shares the cache may replace the program.
        let copy = folder.path().join("testbed");
        std::fs::copy(runner, &copy).context("cannot copy the testbed's runner")?;
        let inventory_file = inventory.write_to_memory()?;
        let mut command = Command::new(copy);
        command.args(["--lazy", "--until-eof", "--inventory"]).arg(inventory_file.path());
        let mut process = command
            .env("TMPDIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the testbed")?;
        let output = process.stdout.take().context("the testbed has no output")?;
        let mut lines = BufReader::new(output);
        let testbed = announced_folder(&mut lines)?;
        // Print the further output of the testbed.
        std::thread::spawn(move || {
            let mut rest = String::new();
            while lines.read_line(&mut rest).is_ok_and(|count| count > 0) {
                print!("{rest}");
                rest.clear();
            }
        });
        Ok(Self { process, testbed, _inventory: inventory })
    }

    /// The folder with the testbed's socket.
    pub(crate) fn testbed(&self) -> &Path {
        &self.testbed
    }

    /// Stops the testbed, and checks that it removed its folder.
    pub(crate) fn stop(self) -> Result<()> {
        let Self { mut process, testbed, _inventory } = self;
        drop(process.stdin.take());
        let status = process.wait()?;
        if !status.success() {
            bail!("the testbed ended with {status}");
        }
        if testbed.exists() {
            bail!("the testbed left {} behind", testbed.display());
        }
        Ok(())
    }
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
    bail!("the testbed ended before it was ready")
}
