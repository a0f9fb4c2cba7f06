//! What an action is about, as its rows say.

use std::collections::{HashMap, HashSet};

use muster_core::action::{Action, ActionKind, Target};
use muster_core::cluster::Cluster;
use muster_core::ids::{ClusterId, NodeId, ProfileId};
use muster_core::node::Node;
use muster_core::policy::Binding;
use muster_core::profile::Profile;
use muster_core::projects::ProjectNamespaces;
use muster_store::Store;
use muster_store::reads::Subject;

use crate::context::Context;
use crate::intent::orphan;
use crate::run::Stop;

/// A cluster and its members, or a node that is in none.
pub(crate) struct About {
    pub(crate) cluster: Cluster,
    /// Whether there is such a row: a node without a cluster is the only member of one that is not stored.
    pub(crate) stored: bool,
    pub(crate) profile: Profile,
    /// Recipes of members that were made from another one than their cluster's.
    pub(crate) profiles: HashMap<ProfileId, Profile>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) bindings: Vec<Binding>,
    /// The node that the action is about, as it was.
    pub(crate) target: Option<Node>,
}

fn gone(what: &str) -> Stop {
    Stop::Failed(format!("its {what} is not there any more"))
}

impl About {
    /// Reads it, except for what came with the claim.
    pub(crate) async fn read(
        context: &Context,
        action: &Action,
        taken_over: bool,
        subject: Option<Subject>,
    ) -> Result<Self, Stop> {
        let store = &context.store;
        match (action.cluster_id, action.target) {
            (Some(id), _) | (None, Target::Cluster(id)) => {
                Self::cluster(store, id, action, taken_over, subject).await
            }
            (None, Target::Node(node)) => Self::orphan(store, &context.config.projects, node).await,
        }
    }

    async fn cluster(
        store: &Store,
        id: ClusterId,
        action: &Action,
        taken_over: bool,
        subject: Option<Subject>,
    ) -> Result<Self, Stop> {
        let subject = match subject {
            Some(subject) => Some(subject),
            None => store.subject(id).await?,
        };
        let subject = subject.filter(|subject| subject.cluster.deleted_at.is_none());
        let Subject { cluster, profile } = subject.ok_or_else(|| gone("cluster or profile"))?;
        // A cluster that is only being made has nothing to be read yet.
        let fresh = action.kind == ActionKind::ClusterCreate && !taken_over;
        let mut nodes = if fresh { Vec::new() } else { store.members(id).await? };
        let bindings = if fresh { Vec::new() } else { store.bindings(id).await? };
        let target = match action.target {
            Target::Cluster(_) => None,
            Target::Node(node) => Some(target(store, node, id, &mut nodes).await?),
        };
        let others: HashSet<ProfileId> =
            nodes.iter().map(|node| node.profile_id).filter(|other| *other != profile.id).collect();
        let others: Vec<ProfileId> = others.into_iter().collect();
        let profiles = store.profiles_of(&others).await?;
        let profiles = profiles.into_iter().map(|profile| (profile.id, profile)).collect();
        Ok(Self { cluster, stored: true, profile, profiles, nodes, bindings, target })
    }

    async fn orphan(store: &Store, projects: &ProjectNamespaces, id: NodeId) -> Result<Self, Stop> {
        let node = store.node(id).await?.ok_or_else(|| gone("node"))?;
        if let Some(cluster) = node.cluster_id {
            let why = format!("node {id} has joined cluster {cluster} meanwhile: ask again");
            return Err(Stop::Failed(why));
        }
        let profile = store.profile(node.profile_id).await?.ok_or_else(|| gone("profile"))?;
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

/// The node that an action on a member is about; one that is to become a member is taken in.
async fn target(store: &Store, id: NodeId, cluster: ClusterId, nodes: &mut Vec<Node>) -> Result<Node, Stop> {
    if let Some(node) = nodes.iter().find(|node| node.id == id) {
        return Ok(node.clone());
    }
    let node = store.node(id).await?.ok_or_else(|| gone("node"))?;
    if node.cluster_id != Some(cluster) {
        return Err(Stop::Failed(format!("node {id} has left cluster {cluster} meanwhile: ask again")));
    }
    nodes.push(node.clone());
    Ok(node)
}
