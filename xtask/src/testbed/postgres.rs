//! PostgreSQL: one that runs already, else the system's own, else the system's packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::Inventory;
use super::inventory::Postgres;
use crate::step;

pub(super) fn provide(testbed: &Path, inventory: &mut Inventory) {
    if let Ok(url) = std::env::var("MUSTER_TEST_POSTGRES_URL") {
        inventory.postgres = Some(Postgres::Url(url));
        return;
    }
    match found().map_or_else(|| install(testbed), Ok) {
        Ok(folder) => inventory.postgres = Some(Postgres::BinDir(folder)),
        Err(error) => drop(inventory.missing.insert("postgres".into(), format!("{error:#}"))),
    }
}

/// The newest server among the places where distributions put it.
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
    let root = step::version_of("id", "-u").is_some_and(|id| id == "0");
    if !root || step::version_of("apt-get", "--version").is_none() {
        bail!(
            "needs a PostgreSQL server: install it with `sudo apt-get install postgresql`, or set MUSTER_TEST_POSTGRES_URL"
        );
    }
    // The package would otherwise make and start a database of its own.
    let configuration = Path::new("/etc/postgresql-common/createcluster.conf");
    if !configuration.exists() {
        std::fs::create_dir_all("/etc/postgresql-common")?;
        std::fs::write(configuration, "create_main_cluster = false\n")?;
    }
    let log = testbed.join("postgres.log");
    let mut update = apt_get();
    step::run_quietly("asking the system's packages for PostgreSQL", update.arg("update"), &log)?;
    let mut install = apt_get();
    install.args([
        "install",
        "--yes",
        "--no-install-recommends",
        "-o",
        "Dpkg::Options::=--force-confold",
        "postgresql",
    ]);
    step::run_quietly("installing PostgreSQL", &mut install, &log)?;
    found().context("the package postgresql was installed, but no server was found under /usr/lib/postgresql")
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
