//! The reports of the leader: events on guests, pools and Machines, and metrics.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::runtime::events::{Event, EventType, Recorder, Reporter as EventSource};
use kube::{Client, Resource as _, ResourceExt as _};
use muster_core::time::{TimeSpan, Timestamp};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::metrics::MachineMetrics;
use super::owners::LeftoverRegistration;
use crate::decide::ledger::{GateRemoval, unplaced, waiting};
use crate::decide::reservations::{ObservedMachine, usage};
use crate::decide::slot_pod::SlotPod;
use crate::keys;
use crate::types::{Booking, Machine, MachineNodePool};

/// The name under which events are reported.
const SOURCE: &str = "muster-machines";

/// The reason of events about guests whose type has no slots any more.
const NO_SLOTS: &str = "NoSlots";

/// The reason of events about guests whose namespace has lost its label.
const NOT_SERVED: &str = "NotServed";

/// The capacity of the queue of events. Further events are dropped, so that a slow API server does not delay passes.
const QUEUE: usize = 1024;

/// Reports events and metrics without blocking.
pub(crate) struct Reporter {
    events: mpsc::Sender<(Event, ObjectReference)>,
    metrics: MachineMetrics,
    /// The last reported reasons by group and UID, which are not repeated.
    reported: Mutex<HashMap<(String, String), &'static str>>,
}

impl Reporter {
    pub(crate) fn new(
        client: Client,
        identity: &str,
        metrics: MachineMetrics,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let source = EventSource { controller: SOURCE.to_owned(), instance: Some(identity.to_owned()) };
        let recorder = Recorder::new(client, source);
        let (events, mut queue) = mpsc::channel::<(Event, ObjectReference)>(QUEUE);
        tasks.spawn(async move {
            while let Some((event, about)) = queue.recv().await {
                if let Err(error) = recorder.publish(&event, &about).await {
                    tracing::debug!("an event was not written: {error}");
                }
            }
        });
        Self { events, metrics, reported: Mutex::default() }
    }

    /// Reports the duration of a pass over a group.
    pub(crate) fn passed(&self, took: Duration) {
        self.metrics.passed(took);
    }

    /// Reports that a guest got its slot.
    pub(crate) fn booked(&self, removal: &GateRemoval, guests: &[&SlotPod], now: Timestamp) {
        if let Some(guest) = guests.iter().find(|guest| guest.uid == removal.uid) {
            self.metrics.handed_over(now.since(guest.queued_at));
            let note = format!("it has a slot of {}", guest.machine_type);
            self.publish(reference(guest), EventType::Normal, "Booked", "Book", note);
        }
    }

    /// Reports the counts of a Machine, the waiting guests, and the guests that have a slot and no node.
    pub(crate) fn counts(
        &self,
        observed: &ObservedMachine<'_>,
        ledger: &[Booking],
        now: Timestamp,
        unplaced_after: TimeSpan,
    ) {
        let types = observed.machine.spec.machine_types.iter().map(|machine_type| machine_type.name.as_str());
        self.metrics.count(observed.group, types.map(|name| (name, usage(observed, name))));
        let guests: HashMap<&str, &SlotPod> =
            observed.guests.iter().map(|guest| (guest.uid.as_str(), *guest)).collect();
        for guest in waiting(observed.machine, ledger, &observed.guests) {
            if let Some(pod) = guests.get(guest.uid.as_str()) {
                let (type_, reason) = match guest.position {
                    Some(_) => (EventType::Normal, "WaitingForSlot"),
                    None => (EventType::Warning, NO_SLOTS),
                };
                self.report_once(observed.group, pod, type_, reason, guest.message());
            }
        }
        for pod in unplaced(ledger, &observed.guests, unplaced_after, now) {
            let note = format!(
                "it has a slot of {} and no node yet: `kubectl describe pod` shows what prevents its placement",
                pod.machine_type
            );
            self.report_once(observed.group, pod, EventType::Warning, "NotPlaced", note);
        }
    }

    /// Reports a group without a Machine: its slots are no longer counted, and its guests wait.
    pub(crate) fn without_machine(&self, group: &str, guests: &[&SlotPod]) {
        self.metrics.count(group, []);
        for guest in guests.iter().filter(|guest| guest.is_waiting() && guest.is_gated()) {
            let note = format!(
                "waiting: machine-group {group} has no Machine; restore the Machine or delete the pod"
            );
            self.report_once(group, guest, EventType::Warning, NO_SLOTS, note);
        }
    }

    /// Reports gated guests in namespaces whose label was removed.
    pub(crate) fn unserved(&self, group: &str, guests: &[&SlotPod]) {
        let [label, _] = keys::NAMESPACE_LABELS;
        for guest in guests {
            let note = format!(
                "waiting: namespace {} has no guests any more; label it {label}={} again, or delete the pod",
                guest.namespace,
                keys::ENABLED
            );
            self.report_once(group, guest, EventType::Warning, NOT_SERVED, note);
        }
    }

    /// Reports a webhook configuration of another operator that may refuse guests.
    pub(crate) fn leftover(&self, LeftoverRegistration { about, message }: LeftoverRegistration) {
        self.publish(about, EventType::Warning, "LeftoverRegistration", "Start", message);
    }

    /// Forgets the reported reasons of guests and rivals of a group that no longer exist.
    pub(crate) fn forget_others(&self, group: &str, guests: &[SlotPod], rivals: &[Machine]) {
        let guests = guests.iter().map(|guest| guest.uid.as_str());
        let rivals = rivals.iter().filter_map(|rival| rival.metadata.uid.as_deref());
        let known: HashSet<&str> = guests.chain(rivals).collect();
        self.reported.lock().retain(|(of, uid), _| of != group || known.contains(uid.as_str()));
    }

    /// Removes the metrics of slots and forgets all reported reasons, because another replica leads.
    pub(crate) fn forget(&self) {
        self.metrics.forget();
        self.reported.lock().clear();
    }

    fn report_once(
        &self,
        group: &str,
        guest: &SlotPod,
        type_: EventType,
        reason: &'static str,
        note: String,
    ) {
        let key = (group.to_owned(), guest.uid.clone());
        if self.reported.lock().insert(key, reason) != Some(reason) {
            self.publish(reference(guest), type_, reason, "Wait", note);
        }
    }

    /// Reports cleaned nodes.
    pub(crate) fn cleaned(&self, pool: &MachineNodePool, nodes: &[String]) {
        for node in nodes {
            let note = format!("cleanup annotation, label and taint from {node}");
            self.publish(pool.object_ref(&()), EventType::Normal, "Cleaned", "Clean", note);
        }
    }

    /// Reports a Machine whose group belongs to an older Machine.
    pub(crate) fn rival(&self, machine: &Machine, group: &str) {
        const REASON: &str = "DuplicateGroup";
        let key = (group.to_owned(), machine.uid().unwrap_or_default());
        if self.reported.lock().insert(key, REASON) != Some(REASON) {
            let note = format!("machine-group {group} belongs to an older Machine: delete one of them");
            self.publish(machine.object_ref(&()), EventType::Warning, REASON, "Ignore", note);
        }
    }

    fn publish(&self, about: ObjectReference, type_: EventType, reason: &str, action: &str, note: String) {
        let (reason, action) = (reason.to_owned(), action.to_owned());
        let event = Event { type_, reason, note: Some(note), action, secondary: None };
        if self.events.try_send((event, about)).is_err() {
            tracing::debug!("too many events wait: one is dropped");
        }
    }
}

fn reference(guest: &SlotPod) -> ObjectReference {
    ObjectReference {
        api_version: Some(Pod::api_version(&()).into_owned()),
        kind: Some(Pod::kind(&()).into_owned()),
        namespace: Some(guest.namespace.clone()),
        name: Some(guest.name.clone()),
        uid: Some(guest.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_rival_is_reported_once_and_forgotten_when_it_is_gone() {
        let rival: Machine = from_value(json!({
            "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": "rival", "uid": "u"}, "spec": {"nodePool": [], "machineTypes": []},
        }))
        .unwrap();
        let (events, mut published) = mpsc::channel(9);
        let metrics = MachineMetrics::register(&mut Registry::default());
        let reporter = Reporter { events, metrics, reported: Mutex::default() };
        for _ in 0..2 {
            reporter.forget_others("g", &[], std::slice::from_ref(&rival));
            reporter.rival(&rival, "g");
        }
        assert!(published.try_recv().is_ok() && published.try_recv().is_err(), "one event");
        reporter.forget_others("another", &[], &[]);
        assert_eq!(reporter.reported.lock().len(), 1);
        reporter.forget_others("g", &[], &[]);
        assert!(reporter.reported.lock().is_empty());
    }
}
