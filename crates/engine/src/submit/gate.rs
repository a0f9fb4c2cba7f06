//! Why an action is not accepted beside another one, in the words that existing clients compare.

use std::fmt;

use muster_core::action::{Action, ActionKind, Target};
use muster_core::ids::ActionId;
use muster_store::StoreError;

use super::SubmitError;

/// What stands in the way of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// What was asked for.
    pub kind: ActionKind,
    /// Of what.
    pub target: Target,
    /// What is under way.
    pub actions: Vec<ActionId>,
    /// Whether one of these has the target already; otherwise they wait for it.
    pub locked: bool,
}

impl Gate {
    fn new(kind: ActionKind, target: Target, holders: &[Action]) -> Self {
        Self {
            kind,
            target,
            actions: holders.iter().map(|action| action.id).collect(),
            // Who has begun has its locks, also while it is suspended or between two tries.
            locked: holders.iter().any(|action| action.started_at.is_some()),
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, target, actions, locked } = self;
        let (what, id) = match target {
            Target::Cluster(id) => ("cluster", id.to_string()),
            Target::Node(id) => ("node", id.to_string()),
        };
        if *locked {
            return write!(f, "{kind} for {what} '{id}' cannot be completed because it is already locked.");
        }
        let actions: Vec<String> = actions.iter().map(ActionId::to_string).collect();
        let actions = actions.join(",");
        write!(f, "The {kind} action for target {id} conflicts with the following action(s): {actions}")
    }
}

impl SubmitError {
    /// What stands in the way, if that is why it was refused.
    pub fn gate(&self, kind: ActionKind, target: Target) -> Option<Gate> {
        match self {
            Self::Store(StoreError::Conflict(holders)) => Some(Gate::new(kind, target, holders)),
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
        let told = |holders: Vec<Action>| {
            let error = SubmitError::Store(StoreError::Conflict(holders));
            error.gate(ActionKind::ClusterCheck, Target::Cluster(cluster)).unwrap().to_string()
        };
        assert_eq!(
            told(vec![waiting.clone()]),
            format!(
                "The CLUSTER_CHECK action for target {cluster} conflicts with the following action(s): {}",
                waiting.id
            )
        );
        assert_eq!(
            told(vec![begun]),
            format!(
                "CLUSTER_CHECK for cluster '{cluster}' cannot be completed because it is already locked."
            )
        );
    }
}
