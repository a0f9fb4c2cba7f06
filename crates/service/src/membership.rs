//! Lets nodes join and leave clusters. Requests are refused early here, and the action repeats the checks when it
//! runs.

use std::collections::{BTreeSet, HashMap};

use muster_core::action::Action;
use muster_core::change::{AddNodes, Change, RemoveNodes, ReplaceNodes};
use muster_core::cluster::Cluster;
use muster_core::ids::{NodeId, ProfileId};
use muster_core::membership::{self, HEAD_STAYS, RequestedNode};
use muster_core::node::{Node, NodeRole};
use muster_core::profile::ProfileType;
use muster_engine::Caller;
use muster_engine::ports::provider::{Capabilities, Membership};
use muster_store::StoreError;

use crate::access::Access;
use crate::error::ServiceError;
use crate::find::IdentifyError;
use crate::service::Service;
use crate::sizes::SizeError;

/// The reason why nodes cannot join or leave a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// These nodes cannot join or leave, or the type of the cluster does not allow it.
    #[error("{0}")]
    Refused(String),
    /// Other nodes depend on these nodes, which are listed as the request names them.
    #[error("other nodes depend on nodes {}", .0.join(", "))]
    InUse(Vec<String>),
    /// A text of the request fits several nodes, or a node may not be accessed.
    #[error(transparent)]
    Identify(#[from] IdentifyError),
    /// The size would be out of range.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The nodes could not be read, or the change was refused.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<StoreError> for MembershipError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

fn refused(why: impl Into<String>) -> MembershipError {
    MembershipError::Refused(why.into())
}

/// The nodes that a request names, with the texts of the request.
struct NamedNodes {
    given: Vec<String>,
    nodes: Vec<Option<(Node, ProfileType)>>,
}

impl NamedNodes {
    fn found(&self) -> Vec<RequestedNode<'_>> {
        self.given
            .iter()
            .zip(&self.nodes)
            .map(|(given, node)| RequestedNode {
                given,
                node: node.as_ref().map(|(node, kind)| (node, kind)),
            })
            .collect()
    }

    fn ids(&self) -> Vec<NodeId> {
        self.nodes.iter().flatten().map(|(node, _)| node.id).collect()
    }

    /// The nodes that other nodes depend on.
    fn in_use(&self) -> Vec<String> {
        let found = self.found().into_iter();
        let in_use = found.filter(|found| found.node.is_some_and(|(node, _)| !node.dependents.is_empty()));
        in_use.map(|found| found.given.to_owned()).collect()
    }

    fn include_head(&self) -> bool {
        self.nodes.iter().flatten().any(|(node, _)| node.role == NodeRole::Head)
    }
}

impl Service {
    /// Adds the orphans that a request names to a cluster.
    pub async fn add_nodes(
        &self,
        access: &Access,
        caller: &Caller,
        cluster: &Cluster,
        given: Vec<String>,
    ) -> Result<Action, MembershipError> {
        let kind = &cluster.profile_type;
        if !self.allows_orphans(cluster) {
            return Err(refused(format!(
                "nodes cannot join clusters of type {kind}: resize the cluster instead"
            )));
        }
        let named = self.named_nodes(access, given).await?;
        if let Some(why) = membership::cannot_add(cluster, &named.found()) {
            return Err(refused(why));
        }
        let add = Change::AddNodes(AddNodes { nodes: named.ids(), group: None });
        self.check_sizes(cluster, &add).await?;
        Ok(self.change_cluster(caller, cluster, add).await?)
    }

    /// Removes the members that a request names from a cluster: they become orphans or are deleted.
    pub async fn remove_nodes(
        &self,
        access: &Access,
        caller: &Caller,
        cluster: &Cluster,
        given: Vec<String>,
        destroy_after_deletion: Option<bool>,
    ) -> Result<Action, MembershipError> {
        let named = self.named_nodes(access, given).await?;
        if let Some(why) = membership::cannot_remove(cluster.id, &named.found()) {
            return Err(refused(why));
        }
        if named.include_head() {
            return Err(refused(HEAD_STAYS));
        }
        if destroy_after_deletion != Some(true) && !self.allows_orphans(cluster) {
            return Err(refused(membership::cannot_leave(&cluster.profile_type)));
        }
        let in_use = named.in_use();
        if !in_use.is_empty() {
            return Err(MembershipError::InUse(in_use));
        }
        let remove = Change::RemoveNodes(RemoveNodes { nodes: named.ids(), destroy_after_deletion });
        self.check_sizes(cluster, &remove).await?;
        Ok(self.change_cluster(caller, cluster, remove).await?)
    }

    /// Replaces members of a cluster by orphans, pair by pair.
    pub async fn replace_nodes(
        &self,
        access: &Access,
        caller: &Caller,
        cluster: &Cluster,
        (old, new): (Vec<String>, Vec<String>),
    ) -> Result<Action, MembershipError> {
        let kind = &cluster.profile_type;
        if !self.allows_orphans(cluster) {
            return Err(refused(format!(
                "nodes of clusters of type {kind} cannot be replaced: recover them instead"
            )));
        }
        let (old, new) = (self.named_nodes(access, old).await?, self.named_nodes(access, new).await?);
        if let Some(why) = membership::cannot_replace(cluster, &old.found(), &new.found()) {
            return Err(refused(why));
        }
        if old.include_head() {
            return Err(refused(HEAD_STAYS));
        }
        let nodes = old.ids().into_iter().zip(new.ids()).collect();
        Ok(self.change_cluster(caller, cluster, Change::ReplaceNodes(ReplaceNodes { nodes })).await?)
    }

    async fn named_nodes(&self, access: &Access, given: Vec<String>) -> Result<NamedNodes, MembershipError> {
        let ids = self.identify_nodes(access, &given).await?;
        let found: Vec<NodeId> = ids.iter().flatten().copied().collect();
        let nodes: HashMap<NodeId, Node> =
            self.store().nodes_of(&found).await?.into_iter().map(|node| (node.id, node)).collect();
        let profiles: BTreeSet<ProfileId> = nodes.values().map(|node| node.profile_id).collect();
        let profiles = self.store().profiles_of(&profiles.into_iter().collect::<Vec<_>>()).await?;
        let kinds: HashMap<ProfileId, ProfileType> =
            profiles.into_iter().map(|profile| (profile.id, profile.kind)).collect();
        let node = |id: Option<NodeId>| {
            let node = nodes.get(&id?)?;
            Some((node.clone(), kinds.get(&node.profile_id)?.clone()))
        };
        Ok(NamedNodes { nodes: ids.into_iter().map(node).collect(), given })
    }

    /// Returns true if nodes of the cluster's type may be orphans.
    fn allows_orphans(&self, cluster: &Cluster) -> bool {
        self.capabilities(cluster).is_none_or(|capabilities| capabilities.orphans)
    }

    /// Returns true if the membership of the cluster is delegated to an operator.
    pub(crate) fn is_delegated(&self, cluster: &Cluster) -> bool {
        let membership = self.capabilities(cluster).map(|capabilities| capabilities.membership);
        matches!(membership, Some(Membership::Delegated(_)))
    }

    /// The capabilities of the cluster's type at its provider; none if only another engine serves the instance.
    pub(crate) fn capabilities(&self, cluster: &Cluster) -> Option<Capabilities> {
        let provider = self.engine.provider(&cluster.instance)?;
        provider.capabilities(&cluster.profile_type, cluster.flavor.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn nodes_that_others_depend_on_are_named_as_the_request_names_them() {
        let kind = sample::profile().kind;
        let needed =
            Node { dependents: Map::from_iter([("nodes".to_owned(), json!(["x"]))]), ..sample::node(2) };
        let named = NamedNodes {
            given: vec!["one".to_owned(), "gone".to_owned(), "two".to_owned()],
            nodes: vec![Some((sample::node(1), kind.clone())), None, Some((needed, kind))],
        };
        assert_eq!(named.in_use(), ["two"]);
    }
}
