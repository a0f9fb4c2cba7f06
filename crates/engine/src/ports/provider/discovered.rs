//! Clusters that a provider discovers and that have no row yet.

use muster_core::cluster::{Framework, WorkerGroup};
use muster_core::profile::ProfileType;
use muster_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::ports::provider::ObjectContent;

/// A cluster that exists and has no row: it is external, or of a Muster with another database.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscoveredCluster {
    /// The name of its object.
    pub name: String,
    /// Where it is.
    pub namespace: String,
    /// The type of its profile.
    pub kind: ProfileType,
    /// The properties of its profile.
    pub properties: Map<String, Value>,
    /// What it runs.
    pub framework: Framework,
    /// The flavor of its objects.
    pub flavor: String,
    /// Its groups of workers.
    pub groups: Vec<WorkerGroup>,
    /// Its labels, annotations, owner and user, and its object.
    pub content: ObjectContent,
    /// When it was created.
    pub created_at: Option<Timestamp>,
}
