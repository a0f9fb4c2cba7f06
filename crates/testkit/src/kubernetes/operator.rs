//! The operators that the testbed can run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// An operator that the testbed can run in its Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operator {
    /// KubeRay: `ray.io`.
    KubeRay,
    /// Domino's distributed-compute-operator, with its webhooks: `distributed-compute.dominodatalab.com`.
    Domino,
    /// dask-kubernetes: `kubernetes.dask.org`.
    Dask,
}

impl Operator {
    /// All operators.
    pub const ALL: [Self; 3] = [Self::KubeRay, Self::Domino, Self::Dask];

    /// The name of the operator: `kuberay`, `domino`, `dask`.
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeRay => "kuberay",
            Self::Domino => "domino",
            Self::Dask => "dask",
        }
    }

    /// The name of the operator's process, and of its log.
    pub(crate) fn component(self) -> &'static str {
        match self {
            Self::KubeRay => "kuberay-operator",
            Self::Domino => "domino-operator",
            Self::Dask => "dask-operator",
        }
    }

    /// The operator of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.name() == name)
    }
}

/// A running operator of the testbed.
#[derive(Debug)]
pub struct RunningOperator {
    pub(super) log: PathBuf,
}

impl RunningOperator {
    /// The log of the operator, which contains reasons that no object has.
    pub fn log(&self) -> &Path {
        &self.log
    }
}
