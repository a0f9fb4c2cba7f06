//! The programs that are available on this machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use serde::Deserialize;

use crate::Operator;

/// The programs of a Kubernetes.
#[derive(Debug, Clone)]
pub(super) struct KubernetesBinaries {
    pub(super) etcd: PathBuf,
    pub(super) apiserver: PathBuf,
    pub(super) controller_manager: PathBuf,
    pub(super) scheduler: PathBuf,
    pub(super) kwok: PathBuf,
}

/// The program and files of an operator.
#[derive(Debug, Clone)]
pub(super) struct OperatorFiles {
    /// The program, or the interpreter that runs it.
    pub(super) program: PathBuf,
    /// The folder with the custom resource definitions.
    pub(super) crds: PathBuf,
    /// The file with the webhook configurations, if there are any.
    pub(super) webhooks: Option<PathBuf>,
}

/// The source of PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PostgresSource {
    /// The folder with the programs of PostgreSQL.
    BinDir(PathBuf),
    /// A server that does not belong to the testbed.
    Url(String),
}

/// The reason why a part is not available.
#[derive(Debug)]
pub(super) enum PartProblem {
    /// The part is not available on this machine.
    Missing(String),
    /// The part should be available, and failed.
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for PartProblem {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The programs that `cargo xtask testbed` found, built or installed, and the reasons for missing ones.
#[derive(Debug, Default, Deserialize)]
pub(super) struct TestbedInventory {
    #[serde(default)]
    binaries: BTreeMap<String, PathBuf>,
    #[serde(default)]
    python: BTreeMap<String, PathBuf>,
    #[serde(default)]
    crds: BTreeMap<String, PathBuf>,
    #[serde(default)]
    webhooks: BTreeMap<String, PathBuf>,
    postgres: Option<PostgresSource>,
    #[serde(default)]
    missing: BTreeMap<String, String>,
    /// The text that it was read from.
    #[serde(skip)]
    pub(super) text: String,
}

impl TestbedInventory {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| {
            format!(
                "cannot read the inventory {} (`cargo xtask testbed start` hands it over)",
                path.display()
            )
        })?;
        let read: Self =
            serde_json::from_str(&text).with_context(|| format!("{} is not an inventory", path.display()))?;
        Ok(Self { text, ..read })
    }

    pub(super) fn kubernetes(&self) -> Result<KubernetesBinaries, PartProblem> {
        let names = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];
        let absent: Vec<_> = names.into_iter().filter(|name| !self.binaries.contains_key(*name)).collect();
        if !absent.is_empty() {
            return Err(self.missing("Kubernetes", &absent));
        }
        let binary = |name| present(name, &self.binaries[name]);
        Ok(KubernetesBinaries {
            etcd: binary("etcd")?,
            apiserver: binary("kube-apiserver")?,
            controller_manager: binary("kube-controller-manager")?,
            scheduler: binary("kube-scheduler")?,
            kwok: binary("kwok")?,
        })
    }

    pub(super) fn operator(&self, operator: Operator) -> Result<OperatorFiles, PartProblem> {
        let program = match operator {
            Operator::KubeRay | Operator::Domino => self.binary(operator.name())?,
            Operator::Dask => self.python("dask-operator")?,
        };
        let webhooks = self.webhooks.get(operator.name()).cloned();
        Ok(OperatorFiles { program, crds: self.crds(operator)?, webhooks })
    }

    /// The folder with an operator's custom resource definitions.
    pub(super) fn crds(&self, operator: Operator) -> Result<PathBuf, PartProblem> {
        let name = operator.name();
        let part = if operator == Operator::Dask { "python/dask-operator" } else { name };
        let whole = format!("crds/{name}");
        let path = self.crds.get(name).ok_or_else(|| self.missing(&whole, &[part]))?;
        present(&whole, path)
    }

    pub(super) fn binary(&self, name: &str) -> Result<PathBuf, PartProblem> {
        let path = self.binaries.get(name).ok_or_else(|| self.missing(name, &[name]))?;
        present(name, path)
    }

    pub(super) fn python(&self, environment: &str) -> Result<PathBuf, PartProblem> {
        let name = format!("python/{environment}");
        let path = self.python.get(environment).ok_or_else(|| self.missing(&name, &[&name]))?;
        present(&name, path)
    }

    pub(super) fn postgres(&self) -> Result<PostgresSource, PartProblem> {
        self.postgres.clone().ok_or_else(|| self.missing("PostgreSQL", &["postgres"]))
    }

    /// The reasons why `whole` is not available: each reason once, with the names of the parts that are missing because
    /// of it.
    fn missing(&self, whole: &str, parts: &[&str]) -> PartProblem {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for part in parts {
            let why = self
                .missing
                .get(*part)
                .map_or("not in the inventory; run `cargo xtask testbed`", String::as_str);
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(part),
                None => reasons.push((why, vec![part])),
            }
        }
        let reasons: Vec<_> =
            reasons.into_iter().map(|(why, names)| format!("{}: {why}", names.join(", "))).collect();
        PartProblem::Missing(format!("{whole} is missing here ({})", reasons.join("; ")))
    }
}

fn present(name: &str, path: &Path) -> Result<PathBuf, PartProblem> {
    if path.exists() {
        return Ok(path.to_owned());
    }
    Err(anyhow!(
        "the inventory has {name} at {}, but nothing is there: `cargo xtask testbed` mends it",
        path.display()
    )
    .into())
}

#[cfg(test)]
mod tests;
