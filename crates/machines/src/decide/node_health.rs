//! The health of nodes, from their taints, their conditions and the mode in the spec.

use k8s_openapi::api::core::v1::{Node, Taint};

use crate::keys;
use crate::placement::READY_NODE;
use crate::types::{Mode, NodeCondition};

/// The taint of nodes that have not become ready.
const NOT_READY_TAINT: &str = "node.kubernetes.io/not-ready";

/// The taint of nodes that do not report.
const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";

/// The taints of nodes that cannot be used, whatever their effect.
const UNUSABLE_TAINTS: [&str; 4] = [
    NOT_READY_TAINT,
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/network-unavailable",
    UNREACHABLE_TAINT,
];

/// The rules for the health of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HealthRules {
    /// True if the taint not-ready is ignored: an API server without a controller-manager puts it on each new node and
    /// never removes it.
    pub ignore_not_ready_taint: bool,
}

/// The health of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeHealth {
    /// The node can be used.
    Ready,
    /// The node cannot be used.
    NotReady,
    /// The spec takes the node out of use.
    Maintenance,
}

impl NodeHealth {
    /// The value of the node's label and taint.
    pub const fn value(self) -> &'static str {
        match self {
            Self::Ready => READY_NODE,
            Self::NotReady => "not-ready",
            Self::Maintenance => "maintenance",
        }
    }

    /// The value in the status of a pool.
    pub const fn condition(self) -> NodeCondition {
        match self {
            Self::Ready => NodeCondition::Ready,
            Self::NotReady => NodeCondition::NotReady,
            Self::Maintenance => NodeCondition::Maintenance,
        }
    }
}

/// Returns the health of a node; `None` is a node that does not exist.
pub fn node_health(mode: Mode, node: Option<&Node>, rules: HealthRules) -> NodeHealth {
    if mode == Mode::Maintenance {
        return NodeHealth::Maintenance;
    }
    let Some(node) = node else { return NodeHealth::NotReady };
    let ignored = |key: &str| rules.ignore_not_ready_taint && key == NOT_READY_TAINT;
    let tainted = taints(node)
        .iter()
        .any(|taint| UNUSABLE_TAINTS.contains(&taint.key.as_str()) && !ignored(&taint.key));
    if tainted || ready_condition(node).is_some_and(|status| status != "True") {
        NodeHealth::NotReady
    } else {
        NodeHealth::Ready
    }
}

/// Returns true if a node does not report, so that its kubelet confirms no deletion of a pod.
pub fn is_lost(node: Option<&Node>) -> bool {
    node.is_none_or(|node| {
        taints(node).iter().any(|taint| taint.key == UNREACHABLE_TAINT)
            || ready_condition(node) == Some("Unknown")
    })
}

/// Returns true if a taint that reservations of the type do not tolerate keeps them off a node.
pub fn keeps_pods_off(node: &Node, machine_type: &str) -> bool {
    let own = keys::type_key(machine_type);
    taints(node).iter().any(|taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && taint.key != own
            && taint.key != keys::NODE_POOL
    })
}

/// The taints of a node.
pub(crate) fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

fn ready_condition(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.status.as_str())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    use super::NodeHealth::{Maintenance, NotReady, Ready};
    use super::*;

    const fn rules(ignore_not_ready_taint: bool) -> HealthRules {
        HealthRules { ignore_not_ready_taint }
    }

    fn node(taint: Option<&str>, ready: Option<&str>) -> Node {
        let taints: Vec<Value> =
            taint.map(|key| json!({"key": key, "effect": "NoExecute"})).into_iter().collect();
        let conditions: Vec<Value> =
            ready.map(|status| json!({"type": "Ready", "status": status})).into_iter().collect();
        from_value(json!({"spec": {"taints": taints}, "status": {"conditions": conditions}})).unwrap()
    }

    #[rstest]
    #[case::plain(None, None, Ready)]
    #[case::ready(None, Some("True"), Ready)]
    #[case::not_ready(None, Some("False"), NotReady)]
    #[case::unknown(None, Some("Unknown"), NotReady)]
    #[case::other_taint(Some("x"), Some("True"), Ready)]
    #[case::taint_1(Some("node.kubernetes.io/not-ready"), None, NotReady)]
    #[case::taint_2(Some("node.kubernetes.io/unschedulable"), None, NotReady)]
    #[case::taint_3(Some("node.kubernetes.io/network-unavailable"), None, NotReady)]
    #[case::taint_4(Some("node.kubernetes.io/unreachable"), None, NotReady)]
    fn a_node_is_judged_by_taints_and_condition(
        #[case] taint: Option<&str>,
        #[case] ready: Option<&str>,
        #[case] expected: NodeHealth,
    ) {
        let node = node(taint, ready);
        assert_eq!(node_health(Mode::Ready, Some(&node), rules(false)), expected);
        assert_eq!(node_health(Mode::Maintenance, Some(&node), rules(false)), Maintenance);
    }

    #[test]
    fn one_taint_can_be_ignored() {
        let of = |taint| node_health(Mode::Ready, Some(&node(Some(taint), None)), rules(true));
        assert_eq!([of(NOT_READY_TAINT), of(UNREACHABLE_TAINT)], [Ready, NotReady]);
    }

    #[rstest]
    #[case::missing(None, true)]
    #[case::unreachable(Some(node(Some(UNREACHABLE_TAINT), None)), true)]
    #[case::unknown(Some(node(None, Some("Unknown"))), true)]
    #[case::not_ready(Some(node(None, Some("False"))), false)]
    fn lost_nodes_confirm_nothing(#[case] node: Option<Node>, #[case] lost: bool) {
        assert_eq!(is_lost(node.as_ref()), lost);
    }

    #[rstest]
    #[case::ours("imperator.tenzen-y.io/t", false)]
    #[case::health("imperator.tenzen-y.io/node-pool", false)]
    #[case::of_another_type("imperator.tenzen-y.io/u", true)]
    #[case::of_another("x", true)]
    fn taints_of_others_keep_reservations_off(#[case] key: &str, #[case] expected: bool) {
        assert_eq!(keeps_pods_off(&node(Some(key), None), "t"), expected);
    }
}
