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
    /// Other pools that are being deleted and wait for Muster: those of a Machine that had the group before.
    pub(crate) left_pools: Vec<MachineNodePool>,
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
        let GroupPools { own, published, left } = pools(&world.pools.read(), name, machine.as_ref());
        let of_group = |labels: &BTreeMap<String, String>| {
            labels.get(keys::MACHINE_GROUP).map(String::as_str) == Some(name)
        };
        let listed = machine.iter().flat_map(|machine| &machine.spec.node_pool);
        let listed: HashSet<&str> = listed.map(|entry| entry.name.as_str()).collect();
        let namespaces = world.enabled_namespaces();
        let bookings = machine.as_ref().map(Machine::bookings).unwrap_or_default();
        let booked: BTreeSet<&str> = bookings.iter().map(|booking| booking.uid.as_str()).collect();
        let is_counted = |pod: &SlotPod| {
            pod.role == SlotRole::Reservation
                || !counted_guests([pod], name, &namespaces, |uid| booked.contains(uid)).is_empty()
        };
        let (pods, other_requests) = pods(&world.pods.read(), name, namespace, &listed, is_counted);
        let sets = world.sets.read().values().filter(|set| of_group(set.labels())).cloned().collect();
        let services = world.services.read();
        Self {
            name: name.to_owned(),
            machine,
            rivals,
            pool: own,
            published_pools: published,
            left_pools: left,
            nodes: nodes(&world.nodes.read()),
            other_groups: other_groups(&world.machines.read(), name),
            pods,
            other_requests,
            sets,
            services: services.values().filter(|service| of_group(service.labels())).cloned().collect(),
            namespaces,
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

/// The pools of a group.
#[derive(Debug, Default)]
struct GroupPools {
    own: Option<MachineNodePool>,
    published: Vec<MachineNodePool>,
    left: Vec<MachineNodePool>,
}

/// The pool of a group's Machine; pools of the published operator that have another name; and pools that are being
/// deleted and have Muster's finalizer. Without a Machine, the group's pool is one that stays, if there is one.
fn pools(pools: &HashMap<ObjectKey, MachineNodePool>, group: &str, machine: Option<&Machine>) -> GroupPools {
    let is_leaving = |pool: &MachineNodePool| pool.metadata.deletion_timestamp.is_some();
    let of_group = || pools.values().filter(|pool| pool.group() == Some(group));
    let machine = machine.map(kube::ResourceExt::name_any);
    let own = match &machine {
        Some(machine) => pools.get(&(String::new(), keys::pool_name(machine))),
        None => of_group().min_by_key(|pool| (is_leaving(pool), pool.name_any())),
    };
    let waits = |pool: &&MachineNodePool| {
        let is_guarded = pool.finalizers().iter().any(|finalizer| finalizer == keys::POOL_FINALIZER);
        is_guarded && is_leaving(pool) && own.is_none_or(|own| own.name_any() != pool.name_any())
    };
    let is_published =
        |pool: &&MachineNodePool| machine.as_ref().is_some_and(|machine| is_published_pool(pool, machine));
    GroupPools {
        own: own.cloned(),
        published: of_group().filter(is_published).cloned().collect(),
        left: of_group().filter(waits).cloned().collect(),
    }
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

/// The reservations and guests of a group, and the requests of all other pods on each of these nodes. Pods that have the
/// labels of guests and are not counted as such are other pods.
fn pods(
    pods: &HashMap<ObjectKey, ObservedPod>,
    group: &str,
    namespace: &str,
    nodes: &HashSet<&str>,
    is_counted: impl Fn(&SlotPod) -> bool,
) -> (Vec<SlotPod>, BTreeMap<String, Amounts>) {
    let is_ours =
        |slot: &SlotPod| slot.group == group && (slot.role == SlotRole::Guest || slot.namespace == namespace);
    let slots: Vec<SlotPod> =
        pods.values().filter_map(|pod| pod.slot.as_deref()).filter(|slot| is_ours(slot)).cloned().collect();
    let uids = slots.iter().filter(|slot| is_counted(slot)).map(|slot| slot.uid.as_str()).collect();
    let is_listed = |demand: &&PodDemand| demand.node.as_deref().is_some_and(|node| nodes.contains(node));
    let others = other_requests(pods.values().map(|pod| &pod.demand).filter(is_listed), &uids);
    let others = others.into_iter().map(|(node, requests)| (node.to_owned(), requests)).collect();
    (slots, others)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{from_value, json};

    use super::*;

    fn machine(name: &str) -> Machine {
        from_value(json!({
            "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": name, "labels": {keys::MACHINE_GROUP: "g"}},
            "spec": {"nodePool": [], "machineTypes": []},
        }))
        .unwrap()
    }

    /// A pool of group `g` with Muster's finalizer, of the Machine `NAME` for `NAME-node-pool`; `-` is being deleted.
    fn pool(words: &str) -> MachineNodePool {
        let name = words.trim_end_matches('-');
        let owner = name.trim_end_matches("-node-pool");
        let going = words.ends_with('-').then_some("2023-11-14T22:13:20Z");
        from_value(json!({
            "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "MachineNodePool",
            "metadata": {"name": name, "deletionTimestamp": going, "finalizers": [keys::POOL_FINALIZER],
                "ownerReferences": [
                    {"apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine", "name": owner, "uid": "u"}]},
            "spec": {"machineGroup": "g", "nodePool": [], "machineTypeStock": []},
        }))
        .unwrap()
    }

    #[rstest]
    #[case::its_own(Some("new"), "new-node-pool", Some("new-node-pool"), &[])]
    #[case::of_a_machine_that_was_renamed(Some("new"), "new-node-pool old-node-pool-", Some("new-node-pool"), &["old-node-pool"])]
    #[case::its_own_is_not_applied_yet(Some("new"), "old-node-pool-", None, &["old-node-pool"])]
    #[case::its_own_leaves(Some("new"), "new-node-pool-", Some("new-node-pool"), &[])]
    #[case::another_stays(Some("new"), "new-node-pool other-node-pool", Some("new-node-pool"), &[])]
    #[case::without_a_machine(None, "a-node-pool- b-node-pool", Some("b-node-pool"), &["a-node-pool"])]
    #[case::without_a_machine_all_leave(None, "b-node-pool- a-node-pool-", Some("a-node-pool"), &["b-node-pool"])]
    fn pools_that_wait_for_us_are_found(
        #[case] of_machine: Option<&str>,
        #[case] all: &str,
        #[case] own: Option<&str>,
        #[case] left: &[&str],
    ) {
        let all = all.split_whitespace().map(pool);
        let all = all.map(|pool| ((String::new(), pool.name_any()), pool)).collect();
        let found = pools(&all, "g", of_machine.map(machine).as_ref());
        assert_eq!(found.own.as_ref().map(MachineNodePool::name_any).as_deref(), own);
        let names: Vec<String> = found.left.iter().map(MachineNodePool::name_any).collect();
        assert_eq!(names, left);
    }
}
