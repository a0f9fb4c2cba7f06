//! PostgreSQL: a running server if one is given, or the installed one, or one from the system's packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::Inventory;
use super::inventory::FoundPostgres;
use crate::step::{self, StepFailure};

pub(super) fn provide(testbed: &Path, inventory: &mut Inventory) {
    if let Ok(url) = std::env::var("MUSTER_TEST_POSTGRES_URL") {
        inventory.postgres = Some(FoundPostgres::Url(url));
        return;
    }
    match found().map_or_else(|| install(testbed), Ok) {
        Ok(folder) => inventory.postgres = Some(FoundPostgres::BinDir(folder)),
        Err(error) => inventory.lack(vec!["postgres".into()], &error),
    }
}

/// The newest server in the folders that distributions use.
fn found() -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = ["/usr/lib/postgresql", "/usr/pgsql"]
        .iter()
        .filter_map(|parent| std::fs::read_dir(parent).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    folders.sort_by_key(|folder| version(folder));
    folders.extend(step::version_of("pg_config", "--bindir").map(PathBuf::from));
    folders
        .into_iter()
        .rev()
        .find(|folder| folder.join("postgres").exists() && folder.join("initdb").exists())
}

fn version(folder: &Path) -> u32 {
    folder.parent().and_then(Path::file_name).and_then(|name| name.to_str()?.parse().ok()).unwrap_or(0)
}

fn install(testbed: &Path) -> Result<PathBuf> {
    if !rustix::process::geteuid().is_root() || step::version_of("apt-get", "--version").is_none() {
        bail!(
            "needs a PostgreSQL server: install it with `sudo apt-get install postgresql`, or set MUSTER_TEST_POSTGRES_URL"
        );
    }
    let _no_cluster = NoCluster::ask_for()?;
    let log = testbed.join("postgres.log");
    let mut update = apt_get();
    let offline = |error| StepFailure::needing(error, "the system's packages");
    let what = "asking the system's packages for PostgreSQL";
    step::run_quietly(what, update.arg("update"), &log).map_err(offline)?;
    let mut install = apt_get();
    install.args([
        "install",
        "--yes",
        "--no-install-recommends",
        "-o",
        "Dpkg::Options::=--force-confold",
        "postgresql",
    ]);
    // Not killed with xtask, which would leave packages half installed. The next run waits for it.
    step::run_quietly("installing PostgreSQL", &mut install, &log).map_err(offline)?;
    found().context("the package postgresql was installed, but no server was found under /usr/lib/postgresql")
}

/// Keeps the package from creating and starting a database cluster until this value is dropped.
struct NoCluster {
    made: bool,
}

impl NoCluster {
    const FILE: &str = "/etc/postgresql-common/createcluster.conf";

    fn ask_for() -> Result<Self> {
        let made = !Path::new(Self::FILE).exists();
        if made {
            std::fs::create_dir_all("/etc/postgresql-common")?;
            std::fs::write(Self::FILE, "create_main_cluster = false\n")?;
        }
        Ok(Self { made })
    }
}

impl Drop for NoCluster {
    fn drop(&mut self) {
        if self.made
            && let Err(error) = std::fs::remove_file(Self::FILE)
        {
            eprintln!("  {} is left behind: {error}", Self::FILE);
        }
    }
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
