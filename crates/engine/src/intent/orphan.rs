//! Nodes without a cluster.
//!
//! Each is handled as the only member of a cluster that is not stored: observing, planning, starting and stopping are
//! then the same for all nodes, and providers need not know the difference.

use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::Node;
use muster_core::principal::Owner;
use muster_core::profile::Profile;
use muster_core::projects::ProjectNamespaces;

use crate::ports::provider::Provider;

/// Returns the id of the virtual cluster of an orphan.
pub(crate) const fn id(node: NodeId) -> ClusterId {
    ClusterId::from_uuid(*node.as_uuid())
}

/// Returns the virtual cluster of an orphan. It has no groups, so that no member is ever missing.
pub(crate) fn cluster(node: &Node, profile: &Profile, projects: &ProjectNamespaces) -> Cluster {
    let (name, project, instance) = (&node.name, &node.project, node.instance.clone());
    Cluster {
        // The APIs refuse nodes of projects without a namespace.
        namespace: projects.namespace_of(project).unwrap_or_default().to_owned(),
        object_name: format!("node-{}", node.id.short()),
        owner: Owner { scheme: String::new(), id: node.user.clone(), name: String::new() },
        user: node.user.clone(),
        status: ClusterStatus::Active,
        status_reason: String::new(),
        generation: 0,
        incarnation: node.incarnation,
        next_index: 0,
        created_at: node.created_at,
        updated_at: node.updated_at,
        ..Cluster::new(id(node.id), name, project, instance, profile, node.init_at)
    }
}

/// Returns a substitute for the profile of an orphan whose own is gone: it suffices to delete the orphan.
pub(crate) fn implicit_profile(provider: &dyn Provider, node: &Node) -> Option<Profile> {
    let kind = provider.orphan_type()?;
    let Node { profile_id, name, project, user, init_at, .. } = node;
    Some(Profile::implicit(*profile_id, name, kind, project, user, *init_at))
}
