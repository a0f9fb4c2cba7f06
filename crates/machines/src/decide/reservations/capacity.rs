//! The capacity of the nodes of a type, in slots.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::amounts::{Amounts, shown};
use crate::decide::node_health::keeps_pods_off;
use crate::decide::pod_requests::PodDemand;
use crate::placement::slot_amounts;
use crate::types::MachineType;

/// The most nodes that a message names.
const NAMED_NODES: usize = 10;

/// A usable node, and the requests on it that do not belong to slots of the type.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSlots<'a> {
    /// The node.
    pub node: &'a Node,
    /// The requests of other pods, and the requests of guests of the type beyond their slot.
    pub others: Amounts,
}

/// The slots of a type by its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeCapacity {
    /// The number of slots that the nodes have.
    pub slots: u64,
    /// The number of slots in the spec.
    pub promised: u64,
    /// The calculation by node, for the condition `CapacityShort`.
    pub message: String,
}

impl TypeCapacity {
    /// Returns true if the spec promises more slots than the nodes have.
    pub const fn is_short(&self) -> bool {
        self.slots < self.promised
    }
}

/// The requests by node of running pods that do not count as slots.
pub fn other_requests<'a>(
    pods: impl IntoIterator<Item = &'a PodDemand>,
    slots: &BTreeSet<&str>,
) -> BTreeMap<&'a str, Amounts> {
    let mut by_node: BTreeMap<&str, Amounts> = BTreeMap::new();
    for PodDemand { uid, node, requests } in pods {
        if let Some(node) = node.as_deref().filter(|_| !slots.contains(uid.as_str())) {
            by_node.entry(node).or_default().add(requests);
        }
    }
    by_node
}

/// Counts the slots of a type: on each node, as many as the scarcest resource allows after the requests of other pods.
pub fn type_capacity(machine_type: &MachineType, nodes: &[NodeSlots]) -> TypeCapacity {
    let slot = slot_amounts(&machine_type.spec);
    let promised = u64::try_from(machine_type.available).unwrap_or(0);
    let (mut slots, mut terms) = (0_u64, Vec::new());
    for NodeSlots { node, others } in nodes {
        let (count, term) = node_capacity(node, others, &slot, &machine_type.name, promised);
        slots = slots.saturating_add(count);
        terms.push(format!("{} {count} ({term})", node.name_any()));
    }
    let mut message = format!("{}: {slots} of {promised} slots fit", machine_type.name);
    if terms.is_empty() {
        message.push_str(": no node of the type is ready");
    } else {
        let _ =
            write!(message, ": {}", terms.iter().take(NAMED_NODES).cloned().collect::<Vec<_>>().join("; "));
    }
    if let Some(more) = terms.len().checked_sub(NAMED_NODES).filter(|more| *more > 0) {
        let _ = write!(message, "; and {more} more nodes");
    }
    TypeCapacity { slots, promised, message }
}

/// The slots of a node, and the calculation as text. A type that requests nothing fits as often as it is promised.
fn node_capacity(
    node: &Node,
    others: &Amounts,
    slot: &Amounts,
    machine_type: &str,
    promised: u64,
) -> (u64, String) {
    if keeps_pods_off(node, machine_type) {
        return (0, "a taint keeps reservations off".to_owned());
    }
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let allocatable = Amounts::read(allocatable.into_iter().flatten());
    let scarcest = slot
        .iter()
        .filter(|(_, each)| *each > 0)
        .map(|(resource, each)| {
            (allocatable.get(resource).saturating_sub(others.get(resource)) / each, resource, each)
        })
        .min_by_key(|(count, ..)| *count);
    match scarcest {
        None => (promised, "it needs nothing".to_owned()),
        Some((count, resource, each)) => {
            let [has, taken, each] =
                [allocatable.get(resource), others.get(resource), each].map(|amount| shown(resource, amount));
            (count, format!("{resource}: ({has} − {taken}) / {each}"))
        }
    }
}
