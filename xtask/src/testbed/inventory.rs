//! The inventory of the testbed: its parts, and the missing parts with the reasons.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use anyhow::Result;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;

use crate::lock::FileLock;

/// The parts by name; the serialized form is the input of the testbed's runner.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Inventory {
    /// The programs.
    pub(super) binaries: BTreeMap<String, PathBuf>,
    /// The interpreters of Python environments.
    pub(super) python: BTreeMap<String, PathBuf>,
    /// The folders with the custom resource definitions of operators.
    pub(super) crds: BTreeMap<String, PathBuf>,
    /// The files with the webhook configurations of operators.
    pub(super) webhooks: BTreeMap<String, PathBuf>,
    /// The database server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) postgres: Option<FoundPostgres>,
    /// The missing parts, with the reasons.
    pub(super) missing: BTreeMap<String, String>,
    /// The missing parts for the table, with the ends of their logs.
    #[serde(skip)]
    missing_parts: Vec<MissingPart>,
    /// The locks that keep the parts from being removed, also while processes that inherited them run.
    #[serde(skip)]
    pub(super) in_use: Vec<FileLock>,
}

/// The source of PostgreSQL.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FoundPostgres {
    /// The folder with `postgres` and `initdb`.
    BinDir(PathBuf),
    /// A server that runs already.
    Url(String),
}

/// The parts that are missing for one reason.
#[derive(Debug)]
struct MissingPart {
    names: Vec<String>,
    why: String,
    log: Vec<String>,
}

/// An inventory in memory, which may contain a password and disappears with the last process that has it open.
pub(crate) struct InventoryFile {
    memory: File,
}

impl InventoryFile {
    /// The path of the inventory for child processes.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.memory.as_raw_fd()).into()
    }
}

impl Inventory {
    /// Records missing parts. Tests report the first line of the reason; the inventory shows all of it.
    pub(super) fn lack(&mut self, names: Vec<String>, error: &anyhow::Error) {
        let text = format!("{error:#}");
        let mut lines = text.lines().map(str::to_owned);
        let why = lines.next().unwrap_or_default();
        self.missing.extend(names.iter().map(|name| (name.clone(), why.clone())));
        self.missing_parts.push(MissingPart { names, why, log: lines.collect() });
    }

    /// Returns true if any part is missing.
    pub(crate) fn is_incomplete(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Writes the inventory for the testbed's runner.
    pub(crate) fn write_to_memory(&self) -> Result<InventoryFile> {
        let mut memory = File::from(memfd_create("muster-inventory", MemfdFlags::empty())?);
        memory.write_all(&serde_json::to_vec(self)?)?;
        Ok(InventoryFile { memory })
    }

    /// The inventory as text.
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
        for (name, path) in &self.crds {
            row(&format!("crds/{name}"), &path.display().to_string());
        }
        match &self.postgres {
            Some(FoundPostgres::BinDir(folder)) => row("postgres", &folder.display().to_string()),
            Some(FoundPostgres::Url(_)) => {
                row("postgres", "a server that is running already (MUSTER_TEST_POSTGRES_URL)");
            }
            None => {}
        }
        if self.is_incomplete() {
            text.push_str("It lacks:\n");
        }
        for MissingPart { names, why, log } in &self.missing_parts {
            let names: Vec<&str> =
                names.iter().map(String::as_str).filter(|name| self.missing.contains_key(*name)).collect();
            if let Some(first) = names.first() {
                let _ = writeln!(text, "  {}: {why}", names.join(", "));
                let _ = writeln!(text, "    without it, not run: {}", needed_by(first));
                for line in log {
                    let _ = writeln!(text, "{line}");
                }
            }
        }
        text
    }
}

/// The tests that do not run without a part. `cargo xtask test` also lists each of them by name.
fn needed_by(part: &str) -> &'static str {
    match part {
        "postgres" => "every test on PostgreSQL",
        "etcd" | "kube-apiserver" | "kube-controller-manager" | "kube-scheduler" | "kwok" => {
            "every test on Kubernetes"
        }
        "kuberay" | "domino" | "python/dask-operator" => "every test with this operator",
        part if part.starts_with("python/") => "the tests with this framework's real processes",
        _ => "the tests that ask for it",
    }
}

#[cfg(test)]
mod tests;
