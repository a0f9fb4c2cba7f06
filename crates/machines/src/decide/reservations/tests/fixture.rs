//! A Machine with its nodes and pods, described by short texts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Service};
use muster_core::time::Timestamp;
use serde_json::{Value, from_value, json};

use crate::amounts::Amounts;
use crate::decide::ledger::next_ledger;
use crate::decide::node_health::HealthRules;
use crate::decide::reservations::{
    ObservedMachine, RESERVATION_IMAGE, ReservationSettings, ReservationWrite, TypeCapacity, capacities,
    plan_reservations,
};
use crate::decide::slot_pod::{SlotPhase, SlotPod, SlotRole};
use crate::keys;
use crate::types::{Booking, Machine, MachineNodePool};

pub(super) const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
pub(super) const SETTINGS: ReservationSettings<'_> =
    ReservationSettings { namespace: "imperator-system", image: RESERVATION_IMAGE };

/// Owned observations.
pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) pool: Option<MachineNodePool>,
    pub(super) nodes: Vec<Node>,
    pub(super) pods: Vec<SlotPod>,
    pub(super) others: BTreeMap<String, Amounts>,
    pub(super) sets: Vec<StatefulSet>,
    pub(super) services: Vec<Service>,
}

/// A type `t` of 10 cpu and 10Gi, on the nodes n1 and n2 of 20 cpu each.
pub(super) fn world(available: i32) -> World {
    let entry = |name| json!({"name": name, "mode": "ready", "machineType": [{"name": "t"}]});
    World {
        machine: from_value(json!({
            "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": "m", "uid": "machine-uid", "generation": 3, "labels": {keys::MACHINE_GROUP: "g"}},
            "spec": {
                "nodePool": [entry("n1"), entry("n2")],
                "machineTypes": [{"name": "t", "available": available, "spec": {"cpu": "10", "memory": "10Gi"}}],
            },
        }))
        .unwrap(),
        pool: None,
        nodes: vec![node("n1", &json!({})), node("n2", &json!({}))],
        pods: Vec::new(),
        others: BTreeMap::new(),
        sets: Vec::new(),
        services: Vec::new(),
    }
}

pub(super) fn node(name: &str, spec: &Value) -> Node {
    from_value(json!({"metadata": {"name": name}, "spec": spec,
        "status": {"allocatable": {"cpu": "20", "memory": "100Gi"}}}))
    .unwrap()
}

pub(super) fn tainted(name: &str, key: &str) -> Node {
    node(name, &json!({"taints": [{"key": key, "effect": "NoSchedule"}]}))
}

/// `r0@n1` is a reservation on n1; `g0` a guest without a node. A second word such as `terminating` sets the state.
pub(super) fn pod(words: &str) -> SlotPod {
    let (what, how) = words.split_once(' ').unwrap_or((words, ""));
    let (name, node) =
        what.split_once('@').map_or((what, None), |(name, node)| (name, Some(node.to_owned())));
    let role = if name.starts_with('r') { SlotRole::Reservation } else { SlotRole::Guest };
    SlotPod {
        role,
        group: "g".into(),
        machine_type: "t".into(),
        uid: name.into(),
        namespace: "ns".into(),
        name: name.into(),
        phase: match how {
            "finished" => SlotPhase::Finished,
            "creating" => SlotPhase::Pending,
            "running" => SlotPhase::Running,
            _ if node.is_some() => SlotPhase::Running,
            _ => SlotPhase::Pending,
        },
        node,
        terminating: how == "terminating",
        gates: if how == "gated" { vec![keys::GATE.into()] } else { Vec::new() },
        created_at: NOW,
        queued_at: NOW,
        booked_at: None,
        has_annotations: true,
        requests: Amounts::default(),
    }
}

impl World {
    pub(super) fn with(mut self, pods: &[&str]) -> Self {
        self.pods.extend(pods.iter().map(|words| pod(words)));
        self
    }

    pub(super) fn observed(&self) -> ObservedMachine<'_> {
        let of = |role| self.pods.iter().filter(move |pod| pod.role == role).collect();
        ObservedMachine {
            machine: &self.machine,
            group: "g",
            pool: self.pool.as_ref(),
            nodes: self.nodes.iter().map(|node| (node.metadata.name.as_deref().unwrap(), node)).collect(),
            guests: of(SlotRole::Guest),
            reservations: of(SlotRole::Reservation),
            other_requests: self
                .others
                .iter()
                .map(|(node, amounts)| (node.as_str(), amounts.clone()))
                .collect(),
            sets: self.sets.iter().collect(),
            services: self.services.iter().collect(),
            health: HealthRules::default(),
        }
    }

    /// The ledger after the leader has booked.
    pub(super) fn ledger(&self) -> Vec<Booking> {
        let observed = self.observed();
        let next = next_ledger(&self.machine, &observed.guests, NOW);
        next.unwrap_or_else(|| self.machine.bookings().to_vec())
    }

    pub(super) fn writes(&self) -> Vec<ReservationWrite> {
        plan_reservations(&self.observed(), &self.ledger(), SETTINGS, &BTreeSet::new())
    }

    pub(super) fn capacities(&self) -> Vec<TypeCapacity> {
        capacities(&self.observed())
    }

    /// The replicas that the plan applies; `None` if it applies no set.
    pub(super) fn replicas(&self) -> Option<i32> {
        self.writes().iter().find_map(|write| match write {
            ReservationWrite::ApplySet(set) => set.spec.as_ref().unwrap().replicas,
            _ => None,
        })
    }

    /// Applies the plan to the observed objects, and returns the number of writes.
    pub(super) fn carry_out(&mut self) -> usize {
        let writes = self.writes();
        for write in &writes {
            match write {
                ReservationWrite::ApplySet(set) => {
                    self.sets.retain(|other| other.metadata.name != set.metadata.name);
                    let mut set = *set.clone();
                    set.metadata.uid = Some("set-uid".into());
                    // The API server returns it in this form.
                    let containers =
                        &mut set.spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers;
                    containers[0].image_pull_policy = Some("IfNotPresent".into());
                    self.sets.push(set);
                }
                ReservationWrite::ApplyService(service) => {
                    let mut service = *service.clone();
                    service.metadata.uid = Some("service-uid".into());
                    self.services.push(service);
                }
                ReservationWrite::DeleteSet { name, .. } => {
                    self.sets.retain(|set| set.metadata.name.as_ref() != Some(name));
                }
                ReservationWrite::DeleteService { name, .. } => {
                    self.services.retain(|service| service.metadata.name.as_ref() != Some(name));
                }
                ReservationWrite::DeletePod(deletion) => self.pods.retain(|pod| pod.uid != deletion.uid),
            }
        }
        writes.len()
    }
}
