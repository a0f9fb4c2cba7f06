//! Pods that hold or request a slot, reduced to the fields that decisions read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use muster_core::time::{TimeSpan, Timestamp};

use crate::amounts::{Amounts, core_time};
use crate::decide::pod_requests::pod_requests;
use crate::keys;

/// The largest accepted difference by which a stamp is older than its pod: the clocks of the injector and of the API
/// server differ. An older stamp was written by a user.
const CLOCK_SKEW: TimeSpan = TimeSpan::from_secs(60);

/// The role of a pod: reservation or guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotRole {
    /// The pod holds a slot for a guest.
    Reservation,
    /// The pod uses a slot, or waits for one.
    Guest,
}

/// The progress of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotPhase {
    /// The containers are not known to run.
    Pending,
    /// The containers run.
    Running,
    /// The pod has ended, with success or not.
    Finished,
}

/// A reservation or a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotPod {
    /// The role of the pod.
    pub role: SlotRole,
    /// The group.
    pub group: String,
    /// The type.
    pub machine_type: String,
    /// The UID.
    pub uid: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The node that the pod is bound to.
    pub node: Option<String>,
    /// The progress of the pod.
    pub phase: SlotPhase,
    /// True if the pod is being deleted.
    pub terminating: bool,
    /// The names of the scheduling gates.
    pub gates: Vec<String>,
    /// The time of creation, in whole seconds.
    pub created_at: Timestamp,
    /// The stamp, which orders only guests of the same second, because users can change it.
    pub queued_at: Timestamp,
    /// The booking time in the annotation.
    pub booked_at: Option<String>,
    /// True if the pod has annotations.
    pub has_annotations: bool,
    /// The resource requests.
    pub requests: Amounts,
}

impl SlotPod {
    /// Reads a pod; `None` if it is neither a reservation nor a guest.
    pub fn read(pod: &Pod) -> Option<Self> {
        let label = |key| pod.labels().get(key).cloned().filter(|value| !value.is_empty());
        let role = match label(keys::POD_ROLE)?.as_str() {
            keys::RESERVATION => SlotRole::Reservation,
            keys::GUEST => SlotRole::Guest,
            _ => return None,
        };
        let phase = match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Running") => SlotPhase::Running,
            Some("Succeeded" | "Failed") => SlotPhase::Finished,
            _ => SlotPhase::Pending,
        };
        let spec = pod.spec.as_ref();
        let gates = spec.and_then(|spec| spec.scheduling_gates.as_ref()).into_iter().flatten();
        let node = spec.and_then(|spec| spec.node_name.clone()).filter(|node| !node.is_empty());
        Some(Self {
            role,
            group: label(keys::MACHINE_GROUP)?,
            machine_type: label(keys::MACHINE_TYPE)?,
            uid: pod.uid().unwrap_or_default(),
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            node,
            phase,
            terminating: pod.metadata.deletion_timestamp.is_some(),
            gates: gates.map(|gate| gate.name.clone()).collect(),
            created_at: created_at(pod),
            queued_at: queued_at(pod),
            booked_at: pod.annotations().get(keys::BOOKED_AT).cloned(),
            has_annotations: pod.metadata.annotations.is_some(),
            requests: spec.map(pod_requests).unwrap_or_default(),
        })
    }

    /// Returns true if the pod has ended, with success or not.
    pub fn is_finished(&self) -> bool {
        self.phase == SlotPhase::Finished
    }

    /// Returns true if the pod occupies a slot: it was placed and has not ended. A terminating pod occupies its slot
    /// until it is gone.
    pub fn is_placed(&self) -> bool {
        !self.is_finished() && (self.node.is_some() || self.phase == SlotPhase::Running)
    }

    /// Returns true if the pod still waits to be placed.
    pub fn is_waiting(&self) -> bool {
        !self.is_finished() && !self.is_placed() && !self.terminating
    }

    /// Returns true if Muster's gate keeps the pod from being placed.
    pub fn is_gated(&self) -> bool {
        self.gates.iter().any(|gate| gate == keys::GATE)
    }

    /// The time since which the pod waits: the stamp, within the second of the pod's creation, because users can change
    /// the stamp.
    pub fn waits_since(&self) -> Timestamp {
        self.queued_at.clamp(self.created_at, self.created_at.after(TimeSpan::from_secs(1)))
    }

    /// Returns true if a gate of another controller keeps the pod from being placed.
    pub fn has_other_gates(&self) -> bool {
        self.gates.iter().any(|gate| gate != keys::GATE)
    }

    /// Returns true if the pod occupies a slot or the scheduler may place it at any time, because Muster's gate is
    /// removed.
    pub fn is_released(&self) -> bool {
        self.is_placed() || (self.is_waiting() && !self.is_gated())
    }
}

fn created_at(pod: &Pod) -> Timestamp {
    pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::default(), |time| core_time(time.0))
}

/// The stamp of the injector, at the earliest [`CLOCK_SKEW`] before the creation; without a stamp, the time of
/// creation.
fn queued_at(pod: &Pod) -> Timestamp {
    let created = created_at(pod);
    let stamp = pod.annotations().get(keys::QUEUED_AT).and_then(|stamp| stamp.parse().ok());
    stamp.map_or(created, |stamp| Timestamp::from_micros(stamp).max(created.before(CLOCK_SKEW)))
}

/// The counted guests of a group: those in namespaces with the label, and those in the ledger. An annotation is no
/// proof of a booking: where no webhook is called, users can write it.
pub fn counted_guests<'a>(
    pods: impl IntoIterator<Item = &'a SlotPod>,
    group: &str,
    namespaces: &BTreeMap<String, bool>,
    booked: impl Fn(&str) -> bool,
) -> Vec<&'a SlotPod> {
    let counts = |pod: &&SlotPod| {
        let enabled = namespaces.get(&pod.namespace).copied().unwrap_or(false);
        pod.role == SlotRole::Guest && pod.group == group && (enabled || booked(&pod.uid))
    };
    pods.into_iter().filter(counts).collect()
}

#[cfg(test)]
mod tests;
