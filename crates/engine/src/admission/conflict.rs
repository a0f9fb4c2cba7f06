//! Conflicts between actions, with the messages that existing clients compare.

use std::fmt;

use muster_core::action::{Action, ActionKind, ActionStatus, Cause, Target};
use muster_core::ids::{ActionId, ClusterId, NodeId};
use muster_store::StoreError;
use muster_store::reads::ActionQuery;

use crate::admission::request::SubmitError;
use crate::context::Engine;

/// A conflict with other actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The kind of the refused action.
    pub kind: ActionKind,
    /// The target of the refused action.
    pub target: Target,
    /// The actions that it conflicts with.
    pub actions: Vec<ActionId>,
    /// True if one of these actions holds the lock of the target; otherwise all of them wait for it.
    pub locked: bool,
}

impl Conflict {
    fn new(kind: ActionKind, target: Target, holders: &[Action]) -> Self {
        Self {
            kind,
            target,
            actions: holders.iter().map(|action| action.id).collect(),
            // An action that has started holds its locks, also while it is suspended or between two attempts.
            locked: holders.iter().any(|action| action.started_at.is_some()),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, target, actions, locked } = self;
        let (what, id) = (target.kind(), target.id());
        if *locked {
            return write!(f, "{kind} for {what} '{id}' cannot be completed because it is already locked.");
        }
        let actions: Vec<String> = actions.iter().map(ActionId::to_string).collect();
        let actions = actions.join(",");
        write!(f, "The {kind} action for target {id} conflicts with the following action(s): {actions}")
    }
}

impl Engine {
    /// Returns true if a user's action on the cluster or on the node is in progress. Recoveries that Muster starts by
    /// itself do not count.
    pub async fn has_user_action(
        &self,
        cluster: Option<ClusterId>,
        node: Option<NodeId>,
    ) -> Result<bool, StoreError> {
        let targets = cluster.map(|id| id.to_string()).into_iter().chain(node.map(|id| id.to_string()));
        let open = ActionQuery {
            targets: targets.collect(),
            statuses: ActionStatus::ALL.iter().copied().filter(|status| !status.is_final()).collect(),
            top_level: true,
            ..ActionQuery::default()
        };
        let actions = self.store().actions(&open).await?.items;
        Ok(actions.iter().any(|action| action.cause != Cause::Healing))
    }
}

impl SubmitError {
    /// Returns the conflict, if that is why the request was refused.
    pub fn conflict(&self, kind: ActionKind, target: Target) -> Option<Conflict> {
        match self {
            Self::Store(StoreError::Conflict(holders)) => Some(Conflict::new(kind, target, holders)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_core::ids::ClusterId;
    use muster_core::sample;
    use muster_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_target_is_locked_once_its_action_has_begun() {
        let cluster = ClusterId::from_uuid(Uuid::from_u128(0xc1));
        let waiting = sample::action(1, ActionKind::ClusterResize, cluster);
        let begun = Action { started_at: Some(Timestamp::from_micros(1)), ..waiting.clone() };
        let message = |holders: Vec<Action>| {
            let error = SubmitError::Store(StoreError::Conflict(holders));
            error.conflict(ActionKind::ClusterCheck, Target::Cluster(cluster)).unwrap().to_string()
        };
        assert_eq!(
            message(vec![waiting.clone()]),
            format!(
                "The CLUSTER_CHECK action for target {cluster} conflicts with the following action(s): {}",
                waiting.id
            )
        );
        assert_eq!(
            message(vec![begun]),
            format!(
                "CLUSTER_CHECK for cluster '{cluster}' cannot be completed because it is already locked."
            )
        );
    }
}
