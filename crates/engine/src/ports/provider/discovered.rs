//! Clusters that a provider discovers and that have no row yet.

use muster_core::cluster::{Framework, WorkerGroup};
use muster_core::profile::ProfileType;
use muster_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::ports::provider::ObjectContent;

/// A cluster that exists and has no row: it is external, or belongs to a Muster with another database.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscoveredCluster {
    /// The name of its object.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The type of its profile.
    pub kind: ProfileType,
    /// The properties of its profile.
    pub properties: Map<String, Value>,
    /// The framework that it runs.
    pub framework: Framework,
    /// The flavor of its objects.
    pub flavor: String,
    /// Its groups of workers.
    pub groups: Vec<WorkerGroup>,
    /// Its labels, annotations, owner and user, and its object.
    pub content: ObjectContent,
    /// Its creation time, if known.
    pub created_at: Option<Timestamp>,
}
