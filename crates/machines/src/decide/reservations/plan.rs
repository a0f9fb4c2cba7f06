//! The plan of writes that make the reservations of a Machine match its spec and its ledger.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::ResourceExt;
use serde_json::json;

use super::capacity::{NodeSlots, TypeCapacity, type_capacity};
use super::objects::{wanted_service, wanted_set};
use crate::amounts::Amounts;
use crate::decide::covers::covers;
use crate::decide::ledger::type_load;
use crate::decide::node_health::{HealthRules, NodeHealth, is_lost, node_health};
use crate::decide::slot_pod::SlotPod;
use crate::keys;
use crate::placement::{gpu_label, slot_amounts};
use crate::types::{Booking, Machine, MachineNodePool, MachineType, NodePoolEntry};

/// A Machine and what was observed around it.
#[derive(Debug, Clone)]
pub struct ObservedMachine<'a> {
    /// The Machine.
    pub machine: &'a Machine,
    /// The group of the Machine.
    pub group: &'a str,
    /// The pool of the Machine, if it exists.
    pub pool: Option<&'a MachineNodePool>,
    /// The nodes of the cluster by name.
    pub nodes: BTreeMap<&'a str, &'a Node>,
    /// The counted guests of the group.
    pub guests: Vec<&'a SlotPod>,
    /// The reservations of the group in our namespace.
    pub reservations: Vec<&'a SlotPod>,
    /// The requests by node of pods in neither of these lists: see [`other_requests`](super::other_requests).
    pub other_requests: BTreeMap<&'a str, Amounts>,
    /// The sets of reservations of the group in our namespace.
    pub sets: Vec<&'a StatefulSet>,
    /// The Services of the group in our namespace.
    pub services: Vec<&'a Service>,
    /// The rules for the health of nodes.
    pub health: HealthRules,
}

/// A write of the Machine controller. Deletions have the UID as their precondition.
#[derive(Debug, Clone, PartialEq)]
pub enum ReservationWrite {
    /// Apply a StatefulSet.
    ApplySet(Box<StatefulSet>),
    /// Apply a Service.
    ApplyService(Box<Service>),
    /// Delete a StatefulSet with its pods.
    DeleteSet {
        /// The name.
        name: String,
        /// The UID.
        uid: String,
    },
    /// Delete a Service.
    DeleteService {
        /// The name.
        name: String,
        /// The UID.
        uid: String,
    },
    /// Delete a reservation.
    DeletePod(PodDeletion),
}

/// The deletion of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDeletion {
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
    /// True if the pod is deleted without waiting for its node, which is lost.
    pub forced: bool,
}

/// The settings of new reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationSettings<'a> {
    /// The namespace of the reservation pods.
    pub namespace: &'a str,
    /// The image of the reservation pods: [`RESERVATION_IMAGE`](super::RESERVATION_IMAGE) unless a cluster has its own
    /// registry.
    pub image: &'a str,
}

/// The writes of a pass, in order. Types in `held_back` are being taken over from the published operator: their sets
/// are not written yet.
pub fn plan_reservations(
    observed: &ObservedMachine,
    ledger: &[Booking],
    settings: ReservationSettings,
    held_back: &BTreeSet<&str>,
) -> Vec<ReservationWrite> {
    let mut writes = Vec::new();
    let (mut sets, mut services) = (BTreeSet::new(), BTreeSet::new());
    for machine_type in wanted_types(observed) {
        let name = keys::reservation_name(&machine_type.name, observed.group);
        services.insert(name.clone());
        write_service(&mut writes, observed, machine_type, settings.namespace);
        if is_referenced(observed.machine, &machine_type.name) {
            sets.insert(name);
            if !held_back.contains(machine_type.name.as_str()) {
                let replicas = replicas(observed, ledger, &machine_type.name);
                let set = wanted_set(observed.machine, observed.group, machine_type, settings, replicas);
                write_set(&mut writes, observed, set);
            }
        }
    }
    for set in observed
        .sets
        .iter()
        .filter(|set: &&&StatefulSet| is_ours(observed, **set) && !sets.contains(&set.name_any()))
    {
        writes.push(ReservationWrite::DeleteSet { name: set.name_any(), uid: set.uid().unwrap_or_default() });
    }
    let leftover =
        |service: &&&Service| is_ours(observed, **service) && !services.contains(&service.name_any());
    for service in observed.services.iter().filter(leftover) {
        let (name, uid) = (service.name_any(), service.uid().unwrap_or_default());
        writes.push(ReservationWrite::DeleteService { name, uid });
    }
    writes.extend(observed.reservations.iter().filter_map(|pod| misplaced(observed, pod)));
    writes
}

/// The types of the spec; empty once the Machine is being deleted.
fn wanted_types<'a>(observed: &ObservedMachine<'a>) -> &'a [MachineType] {
    if observed.machine.is_leaving() { &[] } else { &observed.machine.spec.machine_types }
}

fn is_referenced(machine: &Machine, machine_type: &str) -> bool {
    machine.spec.node_pool.iter().any(|entry| entry.single_type() == Some(machine_type))
}

/// Returns true if this controller created the object for this Machine, and the object is not being deleted.
fn is_ours(observed: &ObservedMachine, object: &impl ResourceExt) -> bool {
    let owned = |uid: &str| object.owner_references().iter().any(|owner| owner.uid == uid);
    let labelled = object.labels().get(keys::MACHINE_TYPE);
    let named = labelled.map(|machine_type| keys::reservation_name(machine_type, observed.group));
    object.meta().deletion_timestamp.is_none()
        && observed.machine.uid().is_some_and(|uid| owned(&uid))
        && named == Some(object.name_any())
}

/// The desired number of reservations: a slot is held by a reservation or by a guest.
fn replicas(observed: &ObservedMachine, ledger: &[Booking], machine_type: &str) -> i32 {
    let held = type_load(ledger, &observed.guests, machine_type).holders;
    observed.machine.maximum(machine_type).saturating_sub(i32::try_from(held).unwrap_or(i32::MAX)).max(0)
}

fn write_service(
    writes: &mut Vec<ReservationWrite>,
    observed: &ObservedMachine,
    machine_type: &MachineType,
    namespace: &str,
) {
    let wanted = wanted_service(observed.machine, observed.group, &machine_type.name, namespace);
    let existing = observed.services.iter().find(|service| service.name_any() == wanted.name_any());
    if existing.is_none_or(|existing| !covers(&json!(existing), &json!(wanted))) {
        writes.push(ReservationWrite::ApplyService(Box::new(wanted)));
    }
}

/// Applies a set that differs. If an immutable field differs, the set is deleted, and applied by a pass after it is
/// gone.
fn write_set(writes: &mut Vec<ReservationWrite>, observed: &ObservedMachine, wanted: StatefulSet) {
    let Some(existing) = observed.sets.iter().find(|set| set.name_any() == wanted.name_any()) else {
        writes.push(ReservationWrite::ApplySet(Box::new(wanted)));
        return;
    };
    if existing.metadata.deletion_timestamp.is_some() {
        return;
    }
    let fixed = |set: &StatefulSet| {
        let spec = set.spec.as_ref();
        spec.map(|spec| {
            (spec.service_name.clone(), spec.pod_management_policy.clone(), spec.selector.clone())
        })
    };
    if fixed(existing) != fixed(&wanted) {
        let (name, uid) = (existing.name_any(), existing.uid().unwrap_or_default());
        writes.push(ReservationWrite::DeleteSet { name, uid });
    } else if !covers(&json!(existing), &json!(wanted)) {
        writes.push(ReservationWrite::ApplySet(Box::new(wanted)));
    }
}

/// The node's entry in the spec, if it has this type.
fn entry<'a>(observed: &ObservedMachine<'a>, node: &str, machine_type: &str) -> Option<&'a NodePoolEntry> {
    let entries = &observed.machine.spec.node_pool;
    entries.iter().find(|entry| entry.name == node && entry.single_type() == Some(machine_type))
}

/// Returns true if a pod is on a node that cannot be used for the pod's type.
pub(super) fn has_unusable_node(observed: &ObservedMachine, pod: &SlotPod) -> bool {
    let Some(name) = &pod.node else { return false };
    let node = observed.nodes.get(name.as_str()).copied();
    entry(observed, name, &pod.machine_type)
        .is_none_or(|entry| node_health(entry.mode, node, observed.health) != NodeHealth::Ready)
}

/// The deletion of a reservation on a node that no guest could use. A lost node never confirms a deletion, so that the
/// deletion is forced there, even if the pod is terminating.
fn misplaced(observed: &ObservedMachine, pod: &SlotPod) -> Option<ReservationWrite> {
    let node = pod.node.as_ref()?;
    if pod.is_finished() || !has_unusable_node(observed, pod) {
        return None;
    }
    let forced = is_lost(observed.nodes.get(node.as_str()).copied());
    (forced || !pod.terminating).then(|| {
        ReservationWrite::DeletePod(PodDeletion { name: pod.name.clone(), uid: pod.uid.clone(), forced })
    })
}

/// The slots of each type of the spec.
pub fn capacities(observed: &ObservedMachine) -> Vec<TypeCapacity> {
    wanted_types(observed)
        .iter()
        .map(|machine_type| type_capacity(machine_type, &nodes_of(observed, machine_type)))
        .collect()
}

/// Returns true if the group and the labels of a node allow pods of the type.
fn fits(group: &str, node: &Node, machine_type: &MachineType) -> bool {
    let is_of_another = node.annotations().get(keys::MACHINE_GROUP).is_some_and(|other| other != group);
    let is_selected = gpu_label(&machine_type.spec)
        .is_none_or(|(label, value)| node.labels().get(label).is_some_and(|given| given == value));
    !is_of_another && is_selected
}

/// The usable nodes of a type, with the requests of other pods on them.
fn nodes_of<'a>(observed: &ObservedMachine<'a>, machine_type: &MachineType) -> Vec<NodeSlots<'a>> {
    let slot = slot_amounts(&machine_type.spec);
    let entries = observed.machine.spec.node_pool.iter();
    let of_type = entries.filter(|entry| entry.single_type() == Some(machine_type.name.as_str()));
    let usable = of_type.filter_map(|entry| {
        let node = *observed.nodes.get(entry.name.as_str())?;
        let is_ready = node_health(entry.mode, Some(node), observed.health) == NodeHealth::Ready;
        (is_ready && fits(observed.group, node, machine_type)).then_some((entry, node))
    });
    let with_others = |(entry, node): (&NodePoolEntry, &'a Node)| {
        let mut others = observed.other_requests.get(entry.name.as_str()).cloned().unwrap_or_default();
        for guest in observed
            .guests
            .iter()
            .chain(&observed.reservations)
            .filter(|pod| pod.is_placed() && pod.node.as_deref() == Some(entry.name.as_str()))
        {
            let of_type = guest.machine_type == machine_type.name;
            others.add(&if of_type { guest.requests.above(&slot) } else { guest.requests.clone() });
        }
        NodeSlots { node, others }
    };
    usable.map(with_others).collect()
}
