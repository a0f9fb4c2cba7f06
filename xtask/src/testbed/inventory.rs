//! What the testbed has, and what it lacks with the reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::layout;

/// The parts by name, as the testbed's runner reads them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Inventory {
    /// Programs.
    pub(crate) binaries: BTreeMap<String, PathBuf>,
    /// Interpreters of environments.
    pub(crate) python: BTreeMap<String, PathBuf>,
    /// The database server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) postgres: Option<Postgres>,
    /// What cannot be had, and why.
    pub(crate) missing: BTreeMap<String, String>,
}

/// A PostgreSQL to start, or one that runs already.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Postgres {
    /// The folder with `postgres` and `initdb`.
    BinDir(PathBuf),
    /// A server that somebody else runs.
    Url(String),
}

impl Inventory {
    /// Where it is written.
    pub(crate) fn path() -> Result<PathBuf> {
        Ok(layout::cache()?.join("testbed/inventory.json"))
    }

    /// Writes it whole or not at all.
    pub(crate) fn write(&self) -> Result<()> {
        let path = Self::path()?;
        let new = path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        std::fs::rename(new, path)?;
        Ok(())
    }

    /// What a person reads.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from("The testbed has:\n");
        let mut row = |name: &str, value: &str| {
            let _ = writeln!(text, "  {name:<26} {value}");
        };
        for (name, path) in &self.binaries {
            row(name, &path.display().to_string());
        }
        for (name, path) in &self.python {
            row(&format!("python/{name}"), &path.display().to_string());
        }
        match &self.postgres {
            Some(Postgres::BinDir(folder)) => row("postgres", &folder.display().to_string()),
            Some(Postgres::Url(_)) => {
                row("postgres", "a server that is running already (MUSTER_TEST_POSTGRES_URL)");
            }
            None => {}
        }
        if !self.missing.is_empty() {
            text.push_str("It lacks:\n");
            for (name, reason) in &self.missing {
                let _ = writeln!(text, "  {name}: {reason}\n    without it, not run: {}", needed_by(name));
            }
        }
        text
    }
}

/// Which tests do not run without a part; each says so itself too, by name, at the end of `cargo xtask test`.
fn needed_by(part: &str) -> &'static str {
    match part {
        "postgres" => "every test on PostgreSQL",
        part if part.starts_with("python/") => "the tests with this framework's real processes",
        _ => "every test on Kubernetes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_part_is_named_with_its_reason_and_what_does_not_run() {
        let mut inventory = Inventory::default();
        inventory.missing.insert("kwok".into(), "needs Go, and `go` was not found".into());
        let table = inventory.table();
        assert!(table.contains("kwok: needs Go, and `go` was not found"), "{table}");
        assert!(table.contains("without it, not run: every test on Kubernetes"), "{table}");
    }
}
