//! Nodes without a cluster.
//!
//! Each is worked on as the only member of a cluster that is not stored: looking, planning, starting and stopping are
//! then the same for all nodes, and providers need not know the difference.

use muster_core::cluster::{Cluster, ClusterStatus, ObservedSummary};
use muster_core::ids::{ClusterId, NodeId};
use muster_core::limits::{Limits, Watched};
use muster_core::node::Node;
use muster_core::principal::Owner;
use muster_core::profile::Profile;
use muster_core::time::Span;
use serde_json::Map;

/// How long actions on nodes without a cluster may run, unless they say otherwise.
pub(crate) const TIMEOUT: Span = Span::from_secs(3600);

/// What stands for the cluster of a node that is in none.
pub(crate) const fn id(node: NodeId) -> ClusterId {
    ClusterId::from_uuid(*node.as_uuid())
}

/// The cluster that a node without one is the only member of. It has no groups: nothing is ever missing in it.
pub(crate) fn cluster(node: &Node, profile: &Profile) -> Cluster {
    Cluster {
        id: id(node.id),
        name: node.name.clone(),
        object_name: format!("node-{}", node.id.short()),
        namespace: node.project.clone(),
        project: node.project.clone(),
        instance: node.instance.clone(),
        owner: Owner { scheme: String::new(), id: node.user.clone(), name: String::new() },
        user: node.user.clone(),
        profile_id: profile.id,
        profile_type: profile.kind.clone(),
        framework: None,
        flavor: None,
        has_head: false,
        groups: Vec::new(),
        status: ClusterStatus::Active,
        status_reason: String::new(),
        timeout: TIMEOUT,
        limits: Limits::default(),
        watched: Watched::default(),
        metadata: Map::new(),
        config: Map::new(),
        data: Map::new(),
        dependents: Map::new(),
        labels: std::collections::BTreeMap::new(),
        annotations: std::collections::BTreeMap::new(),
        spec: Map::new(),
        generation: 0,
        incarnation: node.incarnation,
        next_index: 0,
        observed: ObservedSummary::default(),
        init_at: node.init_at,
        created_at: node.created_at,
        updated_at: node.updated_at,
        deleted_at: None,
    }
}
