//! The inputs of a pass: the part of the caches for one group.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::ResourceExt as _;

use super::cache::ObjectKey;
use super::world::{ObservedNode, ObservedPod, ObservedWorld};
use crate::amounts::Amounts;
use crate::decide::group::machine_and_rivals;
use crate::decide::node_health::HealthRules;
use crate::decide::nodes::ObservedPool;
use crate::decide::pod_requests::PodDemand;
use crate::decide::reservations::{ObservedMachine, other_requests};
use crate::decide::slot_pod::{SlotPod, SlotRole, counted_guests};
use crate::decide::takeover::is_published_pool;
use crate::keys;
use crate::types::{Machine, MachineNodePool};

/// Observations of a group, copied so that no cache is locked during requests to Kubernetes.
#[derive(Debug)]
pub(crate) struct GroupObservation {
    pub(crate) name: String,
    /// The Machine of the group: the oldest one, if several claim the group.
    pub(crate) machine: Option<Machine>,
    /// Younger Machines with the same group.
    pub(crate) rivals: Vec<Machine>,
    pub(crate) pool: Option<MachineNodePool>,
    /// Pools of the published operator that Muster's pool replaces.
    pub(crate) published_pools: Vec<MachineNodePool>,
    pub(crate) nodes: BTreeMap<String, Arc<Node>>,
    other_groups: BTreeMap<String, BTreeSet<String>>,
    pub(crate) pods: Vec<SlotPod>,
    other_requests: BTreeMap<String, Amounts>,
    sets: Vec<StatefulSet>,
    services: Vec<Service>,
    namespaces: BTreeMap<String, bool>,
}

impl GroupObservation {
    pub(crate) fn observe(world: &ObservedWorld, name: &str, namespace: &str) -> Self {
        let (machine, rivals) = {
            let machines = world.machines.read();
            let (machine, rivals) = machine_and_rivals(machines.values(), name);
            (machine.cloned(), rivals.into_iter().cloned().collect())
        };
        let (pool, published_pools) = pools(&world.pools.read(), name, machine.as_ref());
        let of_group = |labels: &BTreeMap<String, String>| {
            labels.get(keys::MACHINE_GROUP).map(String::as_str) == Some(name)
        };
        let listed = machine.iter().flat_map(|machine| &machine.spec.node_pool);
        let listed: HashSet<&str> = listed.map(|entry| entry.name.as_str()).collect();
        let (pods, other_requests) = pods(&world.pods.read(), name, namespace, &listed);
        let sets = world.sets.read().values().filter(|set| of_group(set.labels())).cloned().collect();
        let services = world.services.read();
        Self {
            name: name.to_owned(),
            machine,
            rivals,
            pool,
            published_pools,
            nodes: nodes(&world.nodes.read()),
            other_groups: other_groups(&world.machines.read(), name),
            pods,
            other_requests,
            sets,
            services: services.values().filter(|service| of_group(service.labels())).cloned().collect(),
            namespaces: world.enabled_namespaces(),
        }
    }

    /// The counted guests.
    pub(crate) fn guests(&self) -> Vec<&SlotPod> {
        let bookings = self.machine.as_ref().map(Machine::bookings).unwrap_or_default();
        let booked: BTreeSet<&str> = bookings.iter().map(|booking| booking.uid.as_str()).collect();
        counted_guests(&self.pods, &self.name, &self.namespaces, |uid| booked.contains(uid))
    }

    /// Gated guests that do not count, because the label of their namespace was removed.
    pub(crate) fn unserved(&self) -> Vec<&SlotPod> {
        let counted: BTreeSet<&str> = self.guests().iter().map(|guest| guest.uid.as_str()).collect();
        let is_unserved = |pod: &&SlotPod| {
            let is_gated_guest = pod.role == SlotRole::Guest && pod.is_waiting() && pod.is_gated();
            is_gated_guest && !counted.contains(pod.uid.as_str())
        };
        self.pods.iter().filter(is_unserved).collect()
    }

    pub(crate) fn machine<'a>(&'a self, machine: &'a Machine, health: HealthRules) -> ObservedMachine<'a> {
        ObservedMachine {
            machine,
            group: &self.name,
            pool: self.pool.as_ref(),
            nodes: self.nodes.iter().map(|(name, node)| (name.as_str(), &**node)).collect(),
            guests: self.guests(),
            reservations: self.pods.iter().filter(|pod| pod.role == SlotRole::Reservation).collect(),
            other_requests: self
                .other_requests
                .iter()
                .map(|(node, need)| (node.as_str(), need.clone()))
                .collect(),
            sets: self.sets.iter().collect(),
            services: self.services.iter().collect(),
            health,
        }
    }

    pub(crate) fn pool<'a>(&'a self, pool: &'a MachineNodePool, health: HealthRules) -> ObservedPool<'a> {
        let groups = |(node, groups): (&'a String, &'a BTreeSet<String>)| {
            (node.as_str(), groups.iter().map(String::as_str).collect())
        };
        ObservedPool {
            pool,
            nodes: self.nodes.iter().map(|(name, node)| (name.as_str(), &**node)).collect(),
            other_groups: self.other_groups.iter().map(groups).collect(),
            health,
        }
    }
}

/// The pool of a group, and pools of the published operator that have another name.
fn pools(
    pools: &HashMap<ObjectKey, MachineNodePool>,
    group: &str,
    machine: Option<&Machine>,
) -> (Option<MachineNodePool>, Vec<MachineNodePool>) {
    let of_group = || pools.values().filter(|pool| pool.group() == Some(group));
    let Some(machine) = machine.map(kube::ResourceExt::name_any) else {
        return (of_group().next().cloned(), Vec::new());
    };
    let own = pools.get(&(String::new(), keys::pool_name(&machine))).cloned();
    let published = of_group().filter(|pool| is_published_pool(pool, &machine)).cloned().collect();
    (own, published)
}

fn nodes(nodes: &HashMap<ObjectKey, ObservedNode>) -> BTreeMap<String, Arc<Node>> {
    nodes.iter().map(|((_, name), ObservedNode(node))| (name.clone(), Arc::clone(node))).collect()
}

/// The groups of other Machines by the nodes that they list.
fn other_groups(machines: &HashMap<ObjectKey, Machine>, group: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for machine in machines.values().filter(|machine| !machine.is_leaving()) {
        let Some(other) = machine.group().filter(|other| *other != group) else { continue };
        for entry in &machine.spec.node_pool {
            listed.entry(entry.name.clone()).or_default().insert(other.to_owned());
        }
    }
    listed
}

/// The reservations and guests of a group, and the requests of all other pods on each of these nodes.
fn pods(
    pods: &HashMap<ObjectKey, ObservedPod>,
    group: &str,
    namespace: &str,
    nodes: &HashSet<&str>,
) -> (Vec<SlotPod>, BTreeMap<String, Amounts>) {
    let is_ours =
        |slot: &SlotPod| slot.group == group && (slot.role == SlotRole::Guest || slot.namespace == namespace);
    let slots: Vec<SlotPod> =
        pods.values().filter_map(|pod| pod.slot.as_deref()).filter(|slot| is_ours(slot)).cloned().collect();
    let uids = slots.iter().map(|slot| slot.uid.as_str()).collect();
    let is_listed = |demand: &&PodDemand| demand.node.as_deref().is_some_and(|node| nodes.contains(node));
    let others = other_requests(pods.values().map(|pod| &pod.demand).filter(is_listed), &uids);
    let others = others.into_iter().map(|(node, requests)| (node.to_owned(), requests)).collect();
    (slots, others)
}
