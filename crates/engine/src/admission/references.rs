//! Checks the objects that a change refers to: for a caller, objects of other projects do not exist.

use muster_core::change::Change;
use muster_core::ids::{NodeId, PolicyId, ProfileId};
use muster_core::principal::Principal;

use crate::admission::request::SubmitError;
use crate::context::Engine;

/// The ids that a change refers to, besides its own target.
#[derive(Debug, Default, PartialEq, Eq)]
struct References {
    nodes: Vec<NodeId>,
    policy: Option<PolicyId>,
    profile: Option<ProfileId>,
}

impl References {
    fn of(change: &Change) -> Self {
        match change {
            Change::UpdateCluster(update) => Self { profile: update.profile_id, ..Self::default() },
            Change::UpdateNode(update) => Self { profile: update.profile_id, ..Self::default() },
            Change::AddNodes(add) => Self { nodes: add.nodes.clone(), ..Self::default() },
            Change::ReplaceNodes(replace) => {
                Self { nodes: replace.nodes.values().copied().collect(), ..Self::default() }
            }
            Change::AttachPolicy(change) => Self { policy: Some(change.policy_id), ..Self::default() },
            // Members and bound policies belong to the cluster already.
            Change::RemoveNodes(_)
            | Change::Resize(_)
            | Change::ScaleOut(_)
            | Change::ScaleIn(_)
            | Change::OperateCluster(_)
            | Change::DetachPolicy(_)
            | Change::UpdatePolicy(_)
            | Change::CreateCluster
            | Change::DeleteCluster(_)
            | Change::CheckCluster(_)
            | Change::RecoverCluster(_)
            | Change::CreateNode(_)
            | Change::DeleteNode(_)
            | Change::JoinNode
            | Change::LeaveNode
            | Change::CheckNode(_)
            | Change::RecoverNode(_)
            | Change::OperateNode(_) => Self::default(),
        }
    }
}

impl Engine {
    /// Refuses a change that refers to objects of another project, unless an admin asks for it.
    pub(crate) async fn check_references(
        &self,
        project: &str,
        change: &Change,
        principal: &Principal,
    ) -> Result<(), SubmitError> {
        if principal.is_admin() {
            return Ok(());
        }
        let References { nodes, policy, profile } = References::of(change);
        let missing = |kind: &str, id: String| {
            Err(SubmitError::Invalid(format!("{kind} '{id}' not found in project '{project}'")))
        };
        let store = &self.context.store;
        for node in store.nodes_of(&nodes).await? {
            if node.project != project {
                return missing("node", node.id.to_string());
            }
        }
        if let Some(id) = policy
            && store.policy(id).await?.is_some_and(|policy| policy.project != project)
        {
            return missing("policy", id.to_string());
        }
        if let Some(id) = profile
            && store.profile(id).await?.is_some_and(|profile| profile.project != project)
        {
            return missing("profile", id.to_string());
        }
        Ok(())
    }
}
