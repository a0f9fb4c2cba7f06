//! Whether a node is healthy. Pure: the same inputs give the same answer.

use muster_core::node::{Node, NodeStatus, Seen};
use muster_core::policy::health::{PollUrl, Settings};
use muster_core::time::Timestamp;

use crate::ports::probe::Polled;

/// The result of one detection mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It works, or its state is unknown.
    Well,
    /// It does not work; a recent change may be the reason.
    Unwell,
    /// It is dead: its provider observed that.
    Dead,
}

/// Health as the provider observes it.
pub(crate) fn by_provider(node: &Node, seen: &Seen) -> Found {
    match seen {
        Seen::Exited { .. } => Found::Dead,
        // It never worked, or it did and is gone.
        Seen::Absent if node.created_at.is_some() => Found::Dead,
        Seen::Absent => Found::Unwell,
        // A node that ended with its machine is recovered only on request.
        Seen::Running { .. } | Seen::Starting { .. } | Seen::Unknown { .. } | Seen::HostRestarted => {
            Found::Well
        }
    }
}

/// Health of the machine below a node.
pub(crate) const fn by_machine(unwell: bool) -> Found {
    if unwell { Found::Dead } else { Found::Well }
}

/// Health as the node's URL reports it.
pub(crate) const fn by_url(polled: &Polled, options: &PollUrl) -> Found {
    match polled {
        // The health of a node that may not be polled is unknown.
        Polled::Well | Polled::NotAsked => Found::Well,
        Polled::Unreachable(_) if !options.poll_url_conn_error_as_unhealthy => Found::Well,
        Polled::Unwell(_) | Polled::Unreachable(_) => Found::Unwell,
    }
}

/// Whether a node is looked at at all: one that is being changed is left alone, and one whose role only a newer version
/// knows.
pub(crate) const fn is_settled(node: &Node) -> bool {
    node.has_known_role()
        && matches!(node.status, NodeStatus::Active | NodeStatus::Warning | NodeStatus::Error)
}

/// Whether a node has to be recovered.
pub(crate) fn needs_recovery(settings: &Settings, node: &Node, found: &[Found], now: Timestamp) -> bool {
    let changed = node.updated_at.unwrap_or(node.init_at);
    let settling = settings.is_settling(changed, now);
    let well = |found: &Found| match found {
        Found::Well => true,
        Found::Unwell => settling,
        Found::Dead => false,
    };
    !settings.is_well(found.iter().map(well))
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use muster_core::time::Span;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn settings(conditional: &str) -> Settings {
        let detection = json!({
            "interval": 60, "node_update_timeout": 300, "recovery_conditional": conditional, "detection_modes": [],
        });
        let recovery = json!({
            "actions": [], "fencing": [], "node_delete_timeout": 20, "node_force_recreate": false,
        });
        serde_json::from_value(json!({"detection": detection, "recovery": recovery})).expect("settings")
    }

    fn exited() -> Seen {
        Seen::Exited { reason: "killed".to_owned() }
    }

    #[rstest]
    #[case(exited(), true, Found::Dead)]
    #[case(Seen::Absent, true, Found::Dead)]
    #[case(Seen::Absent, false, Found::Unwell)]
    #[case(Seen::HostRestarted, true, Found::Well)]
    #[case(Seen::Unknown { reason: String::new() }, true, Found::Well)]
    #[case(Seen::Running { physical_id: String::new() }, true, Found::Well)]
    #[case(Seen::Starting { physical_id: None }, true, Found::Well)]
    fn only_what_is_certainly_gone_is_dead(#[case] seen: Seen, #[case] worked: bool, #[case] found: Found) {
        let created_at = worked.then(|| Timestamp::from_micros(1));
        assert_eq!(by_provider(&Node { created_at, ..sample::node(1) }, &seen), found);
    }

    #[rstest]
    #[case(Polled::Well, true, Found::Well)]
    #[case(Polled::Unwell(String::new()), false, Found::Unwell)]
    #[case(Polled::Unreachable(String::new()), true, Found::Unwell)]
    #[case(Polled::Unreachable(String::new()), false, Found::Well)]
    #[case(Polled::NotAsked, true, Found::Well)]
    fn a_node_that_may_not_be_asked_is_not_unwell(
        #[case] polled: Polled,
        #[case] conn_error_as_unhealthy: bool,
        #[case] found: Found,
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
    #[case("ANY_FAILED", &[Found::Dead], 0, true)]
    #[case("ANY_FAILED", &[Found::Unwell], 299, false)]
    #[case("ANY_FAILED", &[Found::Unwell], 300, true)]
    #[case("ANY_FAILED", &[Found::Well, Found::Unwell], 300, true)]
    #[case("ALL_FAILED", &[Found::Well, Found::Dead], 300, false)]
    #[case("ALL_FAILED", &[Found::Unwell, Found::Dead], 300, true)]
    #[case("ALL_FAILED", &[Found::Unwell, Found::Dead], 0, false)]
    #[case("ANY_FAILED", &[], 300, false)]
    fn a_node_is_recovered_once_it_had_its_time(
        #[case] conditional: &str,
        #[case] found: &[Found],
        #[case] seconds: u32,
        #[case] recovered: bool,
    ) {
        let changed = Timestamp::from_micros(1);
        let node = Node { updated_at: Some(changed), ..sample::node(1) };
        let now = changed.after(Span::from_secs(seconds));
        assert_eq!(needs_recovery(&settings(conditional), &node, found, now), recovered);
    }
}
