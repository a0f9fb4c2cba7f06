//! Decides whether a node is healthy. Pure: the same inputs give the same answer.

use muster_core::node::{Node, NodeStatus, Observation};
use muster_core::policy::health::{HealthPolicySettings, PollUrl};
use muster_core::time::Timestamp;

use crate::ports::probe::PollResult;

/// The result of one detection mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// The node works, or its state is unknown.
    Healthy,
    /// The node does not work; a recent change may be the reason.
    Unhealthy,
    /// The node is certainly dead, as its provider observed.
    Dead,
}

/// Returns the health of a node by the observation of its provider.
pub(crate) fn by_provider(node: &Node, observation: &Observation) -> Health {
    match observation {
        Observation::Exited { .. } => Health::Dead,
        // A node that worked before is gone; a node that never worked may still be starting.
        Observation::Absent if node.created_at.is_some() => Health::Dead,
        Observation::Absent => Health::Unhealthy,
        // A node that ended with its machine is recovered only on request.
        Observation::Running { .. }
        | Observation::Starting { .. }
        | Observation::Unknown { .. }
        | Observation::HostRestarted => Health::Healthy,
    }
}

/// Returns the health of a node by the state of the machine that it runs on.
pub(crate) const fn by_machine(unhealthy: bool) -> Health {
    if unhealthy { Health::Dead } else { Health::Healthy }
}

/// Returns the health of a node by the result of polling its URL.
pub(crate) const fn by_url(polled: &PollResult, options: &PollUrl) -> Health {
    match polled {
        // The health of a node that may not be polled is unknown.
        PollResult::Healthy | PollResult::NotAllowed => Health::Healthy,
        PollResult::Unreachable(_) if !options.poll_url_conn_error_as_unhealthy => Health::Healthy,
        PollResult::Unhealthy(_) | PollResult::Unreachable(_) => Health::Unhealthy,
    }
}

/// Returns true if a node is to be checked: it is not being changed, and this version knows its role.
pub(crate) const fn is_settled(node: &Node) -> bool {
    node.has_known_role()
        && matches!(node.status, NodeStatus::Active | NodeStatus::Warning | NodeStatus::Error)
}

/// Returns true if a node has to be recovered.
pub(crate) fn needs_recovery(
    settings: &HealthPolicySettings,
    node: &Node,
    found: &[Health],
    now: Timestamp,
) -> bool {
    let changed = node.updated_at.unwrap_or(node.init_at);
    let settling = settings.is_settling(changed, now);
    let healthy = |found: &Health| match found {
        Health::Healthy => true,
        Health::Unhealthy => settling,
        Health::Dead => false,
    };
    !settings.is_healthy(found.iter().map(healthy))
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use muster_core::time::TimeSpan;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn settings(conditional: &str) -> HealthPolicySettings {
        let detection = json!({
            "interval": 60, "node_update_timeout": 300, "recovery_conditional": conditional, "detection_modes": [],
        });
        let recovery = json!({
            "actions": [], "fencing": [], "node_delete_timeout": 20, "node_force_recreate": false,
        });
        serde_json::from_value(json!({"detection": detection, "recovery": recovery})).expect("settings")
    }

    fn exited() -> Observation {
        Observation::Exited { reason: "killed".to_owned() }
    }

    #[rstest]
    #[case(exited(), true, Health::Dead)]
    #[case(Observation::Absent, true, Health::Dead)]
    #[case(Observation::Absent, false, Health::Unhealthy)]
    #[case(Observation::HostRestarted, true, Health::Healthy)]
    #[case(Observation::Unknown { reason: String::new() }, true, Health::Healthy)]
    #[case(Observation::Running { physical_id: String::new() }, true, Health::Healthy)]
    #[case(Observation::Starting { physical_id: None }, true, Health::Healthy)]
    fn only_what_is_certainly_gone_is_dead(
        #[case] observation: Observation,
        #[case] worked: bool,
        #[case] found: Health,
    ) {
        let created_at = worked.then(|| Timestamp::from_micros(1));
        assert_eq!(by_provider(&Node { created_at, ..sample::node(1) }, &observation), found);
    }

    #[rstest]
    #[case(PollResult::Healthy, true, Health::Healthy)]
    #[case(PollResult::Unhealthy(String::new()), false, Health::Unhealthy)]
    #[case(PollResult::Unreachable(String::new()), true, Health::Unhealthy)]
    #[case(PollResult::Unreachable(String::new()), false, Health::Healthy)]
    #[case(PollResult::NotAllowed, true, Health::Healthy)]
    fn a_node_that_may_not_be_asked_is_not_unwell(
        #[case] polled: PollResult,
        #[case] conn_error_as_unhealthy: bool,
        #[case] found: Health,
    ) {
        let options = PollUrl {
            poll_url: String::new(),
            poll_url_ssl_verify: true,
            poll_url_conn_error_as_unhealthy: conn_error_as_unhealthy,
            poll_url_healthy_response: String::new(),
            poll_url_retry_limit: 1,
            poll_url_retry_interval: 1,
        };
        assert_eq!(by_url(&polled, &options), found);
    }

    #[rstest]
    #[case("ANY_FAILED", &[Health::Dead], 0, true)]
    #[case("ANY_FAILED", &[Health::Unhealthy], 299, false)]
    #[case("ANY_FAILED", &[Health::Unhealthy], 300, true)]
    #[case("ANY_FAILED", &[Health::Healthy, Health::Unhealthy], 300, true)]
    #[case("ALL_FAILED", &[Health::Healthy, Health::Dead], 300, false)]
    #[case("ALL_FAILED", &[Health::Unhealthy, Health::Dead], 300, true)]
    #[case("ALL_FAILED", &[Health::Unhealthy, Health::Dead], 0, false)]
    #[case("ANY_FAILED", &[], 300, false)]
    fn a_node_is_recovered_once_it_had_its_time(
        #[case] conditional: &str,
        #[case] found: &[Health],
        #[case] seconds: u32,
        #[case] recovered: bool,
    ) {
        let changed = Timestamp::from_micros(1);
        let node = Node { updated_at: Some(changed), ..sample::node(1) };
        let now = changed.after(TimeSpan::from_secs(seconds));
        assert_eq!(needs_recovery(&settings(conditional), &node, found, now), recovered);
    }
}
