//! Admission of changes of nodes: members, and nodes without a cluster.

use muster_core::action::{Action, ActionKind, OnConflict, Target};
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::ids::{InstanceId, NodeId};
use muster_core::membership::HEAD_STAYS;
use muster_core::node::{Node, NodeRole};
use muster_core::profile::Profile;
use muster_store::StoreError;
use muster_store::commands::{Accept, Accepted};
use serde_json::{Map, Value};

use crate::admission::recipe::admit;
use crate::admission::request::{Caller, NodeChangeRequest, SubmitError};
use crate::admission::submit::log_accepted;
use crate::context::Engine;
use crate::events;
use crate::ids::new_id;
use crate::intent::naming;
use crate::intent::orphan;
use crate::ports::provider::Membership;

/// A node to be created.
#[derive(Debug, Clone)]
pub struct NewNode {
    /// Its name; the naming rule of a cluster replaces the name of a member.
    pub name: String,
    /// Its profile.
    pub profile: Profile,
    /// The cluster that it becomes a member of, if any.
    pub cluster: Option<Cluster>,
    /// The instance where it runs; a member runs where its cluster does.
    pub instance: InstanceId,
    /// The role that the user gives it, which Muster only stores.
    pub role: String,
    /// User metadata.
    pub metadata: Map<String, Value>,
}

impl Engine {
    /// Accepts a new node, alone or as a member; returns the action and the stored node.
    pub async fn create_node(&self, new: NewNode, caller: Caller) -> Result<(Accepted, Node), SubmitError> {
        let NewNode { name, profile, cluster, instance, role, metadata } = new;
        let instance = cluster.as_ref().map_or(instance, |cluster| cluster.instance.clone());
        self.check_local_code(&caller.principal, &instance)?;
        self.admit_node(&profile, cluster.as_ref(), &instance).await?;
        let now = self.now();
        let project = cluster.as_ref().map_or(&caller.principal.project, |cluster| &cluster.project).clone();
        let node = Node {
            user_role: role,
            name,
            user: caller.principal.id.clone(),
            status_reason: "Initializing".to_owned(),
            metadata,
            ..Node::new(NodeId::from_uuid(new_id()), project, instance, profile.id, now)
        };
        let node =
            cluster.as_ref().map_or_else(|| node.clone(), |cluster| naming::candidate(cluster, node.clone()));
        let place =
            cluster.unwrap_or_else(|| orphan::cluster(&node, &profile, &self.context.config.projects));
        let action = self.node_action(ActionKind::NodeCreate, &node, &place, &caller);
        let nodes = vec![node.clone()];
        let accept = Accept { nodes, ..accept(action, &node, OnConflict::Queue, &caller) };
        let accepted = log_accepted(Box::pin(self.context.store.accept(accept)).await?);
        let stored = match accepted.action.target {
            Target::Node(id) if id != node.id => self.context.store.node(id).await?.unwrap_or(node),
            _ => node,
        };
        Ok((accepted, stored))
    }

    /// Refuses a profile that the instance or the cluster does not support.
    async fn admit_node(
        &self,
        profile: &Profile,
        cluster: Option<&Cluster>,
        instance: &InstanceId,
    ) -> Result<(), SubmitError> {
        let provider =
            self.provider(instance).ok_or_else(|| SubmitError::NoProvider(instance.to_string()))?;
        let kind = &profile.kind;
        let flavor = cluster.and_then(|cluster| cluster.flavor.as_deref());
        let unknown = || SubmitError::unknown_type(provider.as_ref(), kind);
        if cluster.is_some_and(|cluster| cluster.profile_type != *kind) {
            let why = "Node and cluster have different profile type, operation aborted.";
            return Err(SubmitError::Invalid(why.to_owned()));
        }
        let capabilities = provider.capabilities(kind, flavor).ok_or_else(unknown)?;
        match cluster {
            None if !capabilities.orphans => {
                return Err(SubmitError::NotSupported(format!(
                    "nodes of type {kind} must belong to a cluster: set cluster_id"
                )));
            }
            Some(_) if matches!(capabilities.membership, Membership::Delegated(_)) => {
                return Err(SubmitError::NotSupported(format!(
                    "clusters of type {kind} cannot add single nodes: resize their group instead"
                )));
            }
            _ => {}
        }
        admit(provider.as_ref(), profile, flavor).await
    }

    /// Accepts a change of a node.
    pub async fn submit_node(
        &self,
        request: NodeChangeRequest,
        caller: Caller,
    ) -> Result<Accepted, SubmitError> {
        let NodeChangeRequest { change, node, on_conflict, timeout } = request;
        if node.role == NodeRole::Head && matches!(change, Change::DeleteNode(_)) {
            return Err(SubmitError::NotSupported(HEAD_STAYS.to_owned()));
        }
        self.check_changed_code(&caller.principal, &node.instance, &change)?;
        let cluster = match node.cluster_id {
            Some(id) => self.context.store.cluster(id).await?.filter(|cluster| cluster.deleted_at.is_none()),
            None => None,
        };
        let place = match cluster {
            Some(cluster) => {
                if let Some(refusal) = self.refusal(&change, &cluster, Some(node.id)).await? {
                    return Err(SubmitError::NotSupported(refusal));
                }
                cluster
            }
            None => {
                let missing = || StoreError::NotFound { kind: "profile", given: node.profile_id.to_string() };
                let profile = match self.context.store.profile(node.profile_id).await? {
                    None if matches!(change, Change::DeleteNode(_)) => {
                        let provider = self.provider(&node.instance);
                        provider.and_then(|provider| orphan::implicit_profile(provider.as_ref(), &node))
                    }
                    profile => profile,
                };
                let profile = profile.ok_or_else(missing)?;
                orphan::cluster(&node, &profile, &self.context.config.projects)
            }
        };
        Box::pin(self.check_references(&node.project, &change, &caller.principal)).await?;
        self.admit_recipe(&node.instance, None, node.profile_id, &change).await?;
        let mut action = self.node_action(change.kind(), &node, &place, &caller);
        (action.version, action.inputs) = (change.version(), change.inputs());
        action.timeout = timeout.unwrap_or(action.timeout);
        let accept = accept(action, &node, on_conflict, &caller);
        Ok(log_accepted(Box::pin(self.context.store.accept(accept)).await?))
    }

    fn node_action(&self, kind: ActionKind, node: &Node, place: &Cluster, caller: &Caller) -> Action {
        let action = self.context.action(kind, place, Some(node.id), caller);
        Action { cluster_id: node.cluster_id, ..action }
    }
}

/// Returns the command that stores an action on a node, with the event of its start.
fn accept(action: Action, node: &Node, on_conflict: OnConflict, caller: &Caller) -> Accept {
    let begun = events::of_node_action(&action, node, "start", &action.id.short(), action.created_at);
    Accept { request: caller.request_key(), events: vec![begun], ..Accept::new(action, on_conflict) }
}
