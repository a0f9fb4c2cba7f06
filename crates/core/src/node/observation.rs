//! The effect of an observation on a node.

use super::{Node, NodeRole, NodeStatus, Observation};
use crate::time::Timestamp;

/// The status reason of a node that ended with its machine.
const HOST_RESTARTED: &str = "the machine restarted";

/// The status reason of an absent node.
const ABSENT: &str = "not found";

impl Observation {
    /// The reason why the node is certainly not working; none if it works, starts, or its state is unknown.
    pub fn loss(&self) -> Option<&str> {
        match self {
            Self::Exited { reason } => Some(reason),
            Self::HostRestarted => Some(HOST_RESTARTED),
            Self::Absent => Some(ABSENT),
            Self::Running { .. } | Self::Starting { .. } | Self::Unknown { .. } => None,
        }
    }
}

impl Node {
    /// Returns true if this version knows the role of the node. A node with a role of a newer version is left to that
    /// version.
    pub const fn has_known_role(&self) -> bool {
        !matches!(self.role, NodeRole::Unknown(_))
    }

    /// Returns true if the node was working when its row was last written.
    pub const fn was_working(&self) -> bool {
        matches!(self.status, NodeStatus::Active | NodeStatus::Warning)
    }

    /// Applies an observation. An unknown state changes nothing; `obstacle` is the reason why a starting node does
    /// not work yet.
    pub fn observe(&mut self, seen: &Observation, obstacle: &str, now: Timestamp) {
        let before = (self.status, self.status_reason.clone(), self.physical_id.clone());
        match seen {
            Observation::Running { physical_id } => {
                if self.status != NodeStatus::Active {
                    self.status = NodeStatus::Active;
                    self.status_reason = self.start_reason().to_owned();
                }
                self.physical_id = Some(physical_id.clone());
                self.set_healing_due(false);
                if self.created_at.is_none() {
                    // The first success resets the budget of starts: afterwards only restarts count.
                    self.starts.clear();
                    self.created_at = Some(now);
                }
            }
            Observation::Starting { physical_id } => {
                self.physical_id.clone_from(physical_id);
                self.status =
                    if self.created_at.is_none() { NodeStatus::Creating } else { NodeStatus::Recovering };
                obstacle.clone_into(&mut self.status_reason);
            }
            Observation::Exited { .. } | Observation::HostRestarted | Observation::Absent => {
                self.status = NodeStatus::Error;
                seen.loss().unwrap_or_default().clone_into(&mut self.status_reason);
            }
            Observation::Unknown { .. } => {}
        }
        if before != (self.status, self.status_reason.clone(), self.physical_id.clone()) {
            self.updated_at = Some(now);
        }
    }

    /// Marks the node as started.
    pub fn start(&mut self, physical_id: String, now: Timestamp) {
        // `observe` keeps the reason of a node that is ACTIVE already.
        self.status_reason = self.start_reason().to_owned();
        self.status = NodeStatus::Active;
        self.observe(&Observation::Running { physical_id }, "", now);
        self.updated_at = Some(now);
    }

    /// The status reason of a started node.
    pub const fn start_reason(&self) -> &'static str {
        if self.created_at.is_none() { "Creation succeeded" } else { "Recovery succeeded" }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::sample;

    const NOW: Timestamp = Timestamp::from_micros(7);

    fn node(status: NodeStatus, worked: bool) -> Node {
        let created_at = worked.then(|| Timestamp::from_micros(1));
        Node { status, created_at, starts: vec![NOW], ..sample::node(1) }
    }

    fn running() -> Observation {
        Observation::Running { physical_id: "17".to_owned() }
    }

    fn exited() -> Observation {
        Observation::Exited { reason: "killed".to_owned() }
    }

    #[rstest]
    #[case::created(node(NodeStatus::Creating, false), running(), NodeStatus::Active, "Creation succeeded")]
    #[case::recovered(
        node(NodeStatus::Recovering, true),
        running(),
        NodeStatus::Active,
        "Recovery succeeded"
    )]
    #[case::unchanged(node(NodeStatus::Active, true), running(), NodeStatus::Active, "")]
    #[case::first_start(node(NodeStatus::Init, false), Observation::Starting { physical_id: None }, NodeStatus::Creating, "no image")]
    #[case::restart(node(NodeStatus::Active, true), Observation::Starting { physical_id: None }, NodeStatus::Recovering, "no image")]
    #[case::exited(node(NodeStatus::Active, true), exited(), NodeStatus::Error, "killed")]
    #[case::rebooted(
        node(NodeStatus::Active, true),
        Observation::HostRestarted,
        NodeStatus::Error,
        HOST_RESTARTED
    )]
    #[case::absent(node(NodeStatus::Active, true), Observation::Absent, NodeStatus::Error, ABSENT)]
    #[case::unknown(node(NodeStatus::Active, true), Observation::Unknown { reason: "?".to_owned() }, NodeStatus::Active, "")]
    fn an_observation_decides_the_status(
        #[case] mut node: Node,
        #[case] seen: Observation,
        #[case] status: NodeStatus,
        #[case] reason: &str,
    ) {
        node.observe(&seen, "no image", NOW);
        assert_eq!((node.status, node.status_reason.as_str()), (status, reason));
    }

    #[test]
    fn the_budget_of_starts_begins_with_the_first_success() {
        let (mut new, mut old) = (node(NodeStatus::Creating, false), node(NodeStatus::Recovering, true));
        new.start("17".to_owned(), NOW);
        old.start("17".to_owned(), NOW);
        assert_eq!((new.starts.len(), old.starts.len()), (0, 1));
        assert_eq!((new.created_at, new.physical_id.as_deref()), (Some(NOW), Some("17")));
    }
}
