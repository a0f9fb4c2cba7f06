//! The inventory of the testbed: its parts, and missing ones with the reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use anyhow::Result;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;

use crate::lock::Lock;

/// The parts by name, as the testbed's runner reads them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Inventory {
    /// Programs.
    pub(super) binaries: BTreeMap<String, PathBuf>,
    /// Interpreters of environments.
    pub(super) python: BTreeMap<String, PathBuf>,
    /// Folders with the custom resources of operators.
    pub(super) crds: BTreeMap<String, PathBuf>,
    /// Files with the webhooks of operators.
    pub(super) webhooks: BTreeMap<String, PathBuf>,
    /// The database server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) postgres: Option<Postgres>,
    /// The missing parts, with the reasons.
    pub(super) missing: BTreeMap<String, String>,
    /// The message for people.
    #[serde(skip)]
    lacks: Vec<Lack>,
    /// Locks that keep the parts from being removed, also in processes that inherit them.
    #[serde(skip)]
    pub(super) in_use: Vec<Lock>,
}

/// A PostgreSQL to start, or one that runs already.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Postgres {
    /// The folder with `postgres` and `initdb`.
    BinDir(PathBuf),
    /// A server that runs already.
    Url(String),
}

/// The parts that are missing for one reason.
#[derive(Debug)]
struct Lack {
    names: Vec<String>,
    why: String,
    log: Vec<String>,
}

/// An inventory in memory, which goes with the last process that can read it: it may hold a password.
pub(crate) struct Handed {
    memory: File,
}

impl Handed {
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
        self.lacks.push(Lack { names, why, log: lines.collect() });
    }

    /// Whether any part is missing.
    pub(crate) fn is_incomplete(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Writes it for the testbed's runner.
    pub(crate) fn hand_over(&self) -> Result<Handed> {
        let mut memory = File::from(memfd_create("muster-inventory", MemfdFlags::empty())?);
        memory.write_all(&serde_json::to_vec(self)?)?;
        Ok(Handed { memory })
    }

    /// The text for people.
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
            Some(Postgres::BinDir(folder)) => row("postgres", &folder.display().to_string()),
            Some(Postgres::Url(_)) => {
                row("postgres", "a server that is running already (MUSTER_TEST_POSTGRES_URL)");
            }
            None => {}
        }
        if self.is_incomplete() {
            text.push_str("It lacks:\n");
        }
        for Lack { names, why, log } in &self.lacks {
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

/// Which tests do not run without a part; each says so itself too, by name, at the end of `cargo xtask test`.
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
