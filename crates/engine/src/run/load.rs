//! Reads the subject of an action from the database.

use std::collections::{HashMap, HashSet};

use muster_core::action::{Action, ActionKind, Target};
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, NodeId, ProfileId};
use muster_core::node::Node;
use muster_core::policy::Binding;
use muster_core::profile::Profile;
use muster_core::projects::ProjectNamespaces;
use muster_store::Store;
use muster_store::reads;

use crate::context::Context;
use crate::intent::orphan;
use crate::ports::provider::Provider;
use crate::run::{Members, RunSubject, Stop};

fn gone(what: &str) -> Stop {
    Stop::Failed(format!("its {what} was deleted"))
}

/// The failure of an action whose kind of target is unknown. Such an action is not claimed; if it runs nevertheless, it
/// must not change anything.
fn unknown_target(action: &Action) -> Stop {
    Stop::Failed(format!("this version does not know actions on a {}", action.target.kind()))
}

/// The rows that were read, without the provider's capabilities.
struct LoadedRows {
    cluster: Cluster,
    stored: bool,
    profile: Profile,
    profiles: HashMap<ProfileId, Profile>,
    nodes: Vec<Node>,
    bindings: Vec<Binding>,
    target: Option<Node>,
}

impl RunSubject {
    /// Reads the subject, except for what came with the claim.
    pub(super) async fn load(
        context: &Context,
        provider: &dyn Provider,
        action: &Action,
        taken_over: bool,
        claimed: Option<reads::ClusterWithProfile>,
    ) -> Result<Self, Stop> {
        let store = &context.store;
        let rows = match (action.cluster_id, action.target) {
            (Some(id), _) | (None, Target::Cluster(id)) => {
                LoadedRows::cluster(store, id, action, taken_over, claimed).await?
            }
            (None, Target::Node(node)) => {
                LoadedRows::orphan(store, &context.config.projects, provider, action.kind, node).await?
            }
            (None, Target::Unknown(_)) => return Err(unknown_target(action)),
        };
        let LoadedRows { cluster, stored, profile, profiles, nodes, bindings, target } = rows;
        let unknown =
            || Stop::Failed(format!("'{}' does not support type {}", action.instance, profile.kind));
        let capabilities =
            provider.capabilities(&profile.kind, cluster.flavor.as_deref()).ok_or_else(unknown)?;
        Ok(Self {
            cluster,
            uncommitted: None,
            stored,
            profile,
            profiles,
            target,
            nodes: Members::new(nodes),
            bindings,
            capabilities,
            node_limit: context.config.max_nodes_per_cluster,
            obstacles: Vec::new(),
        })
    }
}

impl LoadedRows {
    async fn cluster(
        store: &Store,
        id: ClusterId,
        action: &Action,
        taken_over: bool,
        claimed: Option<reads::ClusterWithProfile>,
    ) -> Result<Self, Stop> {
        let subject = match claimed {
            Some(subject) => Some(subject),
            None => store.subject(id).await?,
        };
        let subject = match subject {
            None if deletes(action.kind) => without_profile(store, id).await?,
            subject => subject,
        };
        let subject =
            subject.filter(|subject| subject.cluster.deleted_at.is_some() == action.collects_garbage());
        let reads::ClusterWithProfile { cluster, profile } =
            subject.ok_or_else(|| gone("cluster or profile"))?;
        // A new cluster has no members and no bindings yet.
        let fresh = action.kind == ActionKind::ClusterCreate && !taken_over;
        let mut nodes = if fresh { Vec::new() } else { store.members(id).await? };
        let bindings = if fresh { Vec::new() } else { store.bindings(id).await? };
        let target = match action.target {
            Target::Cluster(_) => None,
            Target::Unknown(_) => return Err(unknown_target(action)),
            Target::Node(node) => Some(target(store, node, id, &mut nodes).await?),
        };
        let others: HashSet<ProfileId> =
            nodes.iter().map(|node| node.profile_id).filter(|other| *other != profile.id).collect();
        let others: Vec<ProfileId> = others.into_iter().collect();
        let profiles = store.profiles_of(&others).await?;
        let profiles = profiles.into_iter().map(|profile| (profile.id, profile)).collect();
        Ok(Self { cluster, stored: true, profile, profiles, nodes, bindings, target })
    }

    async fn orphan(
        store: &Store,
        projects: &ProjectNamespaces,
        provider: &dyn Provider,
        kind: ActionKind,
        id: NodeId,
    ) -> Result<Self, Stop> {
        let node = store.node(id).await?.ok_or_else(|| gone("node"))?;
        if let Some(cluster) = node.cluster_id {
            let why = format!("node {id} has joined cluster {cluster} in the meantime: repeat the request");
            return Err(Stop::Failed(why));
        }
        let profile = match store.profile(node.profile_id).await? {
            None if deletes(kind) => orphan::implicit_profile(provider, &node),
            profile => profile,
        };
        let profile = profile.ok_or_else(|| gone("profile"))?;
        Ok(Self {
            cluster: orphan::cluster(&node, &profile, projects),
            stored: false,
            profile,
            profiles: HashMap::new(),
            target: Some(node.clone()),
            nodes: vec![node],
            bindings: Vec::new(),
        })
    }
}

const fn deletes(kind: ActionKind) -> bool {
    matches!(kind, ActionKind::ClusterDelete | ActionKind::NodeDelete)
}

/// Reads a cluster whose profile may be gone: a deletion needs only the type of the profile.
async fn without_profile(store: &Store, id: ClusterId) -> Result<Option<reads::ClusterWithProfile>, Stop> {
    Ok(store.cluster(id).await?.map(|cluster| {
        let Cluster { profile_id, name, profile_type, project, user, init_at, .. } = &cluster;
        let profile = Profile::implicit(*profile_id, name, profile_type.clone(), project, user, *init_at);
        reads::ClusterWithProfile { cluster, profile }
    }))
}

/// Returns the target node of an action on a member; adds a candidate to the members.
async fn target(store: &Store, id: NodeId, cluster: ClusterId, nodes: &mut Vec<Node>) -> Result<Node, Stop> {
    if let Some(node) = nodes.iter().find(|node| node.id == id) {
        return Ok(node.clone());
    }
    let node = store.node(id).await?.ok_or_else(|| gone("node"))?;
    if node.cluster_id != Some(cluster) {
        return Err(Stop::Failed(format!(
            "node {id} has left cluster {cluster} in the meantime: repeat the request"
        )));
    }
    nodes.push(node.clone());
    Ok(node)
}
