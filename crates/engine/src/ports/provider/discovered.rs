//! Clusters that a provider discovers and that have no row yet.

use std::collections::BTreeMap;

use muster_core::cluster::{Framework, WorkerGroup};
use muster_core::principal::Owner;
use muster_core::profile::ProfileType;
use muster_core::time::Timestamp;
use serde_json::{Map, Value};

/// A cluster that is there and has no row: others made it, or a Muster with another database.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscoveredCluster {
    /// What its object is called.
    pub name: String,
    /// Where it is.
    pub namespace: String,
    /// What it would be made from.
    pub kind: ProfileType,
    /// In which way.
    pub properties: Map<String, Value>,
    /// What it runs.
    pub framework: Framework,
    /// Which objects stand for it.
    pub flavor: String,
    /// Its groups of workers.
    pub groups: Vec<WorkerGroup>,
    /// Whom it belongs to, if that is said; of nobody otherwise.
    pub owner: Owner,
    /// Who made it, as far as it says.
    pub user: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// When it was made.
    pub created_at: Option<Timestamp>,
}
