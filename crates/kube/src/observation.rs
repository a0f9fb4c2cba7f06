//! Observations of clusters for the engine, from their cached objects and pods. Pure.

use std::collections::BTreeMap;

use muster_core::app::EphemeralMark;
use muster_core::cluster::{Cluster, WorkerGroup, WorkerTemplate};
use muster_core::node::NodeRole;
use muster_core::time::{TimeSpan, Timestamp};
use muster_engine::ports::provider::{
    Bounds, ExternalEvent, MemberId, ObjectContent, ObjectSpec, ObjectState, Observed, ObservedGroup,
    ObservedMember,
};
use muster_frameworks::kubernetes::{
    Flavor, GroupProjection, ObjectProjection, ObservedAutoscaler, PodTemplate, merge_groups,
};

use crate::cluster_cache::{CachedCluster, ClusterKey};
use crate::fences::Fences;
use crate::projection::{AwaitedSlot, CachedObject, ClusterPod};

/// The place in the queue of a pod that waits for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueuePlace {
    /// The position in the queue, from 1.
    Position(usize),
    /// The queue, or the pod's position in it, is unknown.
    Unknown,
    /// No Machine has the group, so there is no queue.
    NoMachine,
}

/// The inputs of an observation beside the cached objects and pods.
pub(crate) struct ObservationContext<'a> {
    pub(crate) fences: &'a Fences,
    /// Returns the events of an object, by its UID.
    pub(crate) events_about: &'a dyn Fn(&str) -> Vec<ExternalEvent>,
    /// Returns the last lines of a pod in a crash loop, by its UID.
    pub(crate) crash_log: &'a dyn Fn(&str) -> String,
    /// Returns the place of a pod, by its name, in the queue for a slot.
    pub(crate) queue_place: &'a dyn Fn(&AwaitedSlot, &str) -> QueuePlace,
    pub(crate) now: Timestamp,
}

/// Observes a cluster.
pub(crate) fn observe_cluster(
    flavor: &dyn Flavor,
    key: &ClusterKey,
    cached: &CachedCluster,
    cluster: &Cluster,
    context: &ObservationContext<'_>,
) -> Observed {
    let root = match &cached.root {
        Some(root) if root.value.is_root_of(cluster) => &root.value,
        // The root of another cluster has the name now.
        Some(_) => return Observed { object: ObjectState::Absent, ..Observed::default() },
        None => return observe_without_root(flavor, key, cached, cluster, context),
    };
    let projections = cached.projections();
    let groups = merge_groups(&projections);
    let autoscalers: Vec<&ObservedAutoscaler> =
        projections.iter().filter_map(|object| object.autoscaler.as_ref()).collect();
    let current_template = |pod: &ClusterPod| match pod.member.role {
        NodeRole::Head => Some(&root.projection.head),
        NodeRole::Worker => {
            let group = groups.iter().find(|group| Some(&group.name) == pod.member.group.as_ref());
            group.map(|group| &group.template)
        }
        NodeRole::Unknown(_) => None,
    };
    let refused = refusals(flavor, root, &projections, &(context.events_about)(&root.uid));
    Observed {
        members: cached.members().map(|pod| observed_member(pod, current_template(pod), context)).collect(),
        object: ObjectState::Present(ObjectSpec {
            identity: root.uid.clone(),
            fence: cached.fence(context.fences),
            generation: cached.generation(),
            groups: groups.iter().map(|group| observed_group(group, &autoscalers)).collect(),
            leaving: root.leaving.is_some(),
            suspended: root.projection.suspended,
            unfinished: !flavor.is_complete(&projections),
            missing: flavor.missing_objects(&key.name, &projections),
            workers_outlive_head: root.projection.durable_head,
            pending: pending_reasons(flavor, cached, root, refused.is_empty(), context.now),
            refused,
            reported_state: root.projection.state.clone(),
            ports: root.projection.ports.clone(),
            content: None,
        }),
        external_events: latest(cached.uids().flat_map(context.events_about).collect()),
        endpoints: BTreeMap::from(flavor.endpoints(&key.namespace, &key.name)),
        ..Observed::default()
    }
}

/// Observes a cluster whose root is gone: it is absent, unless the root was deleted without its dependents.
fn observe_without_root(
    flavor: &dyn Flavor,
    key: &ClusterKey,
    cached: &CachedCluster,
    cluster: &Cluster,
    context: &ObservationContext<'_>,
) -> Observed {
    let members = cached.members().map(|pod| observed_member(pod, None, context)).collect();
    let orphans: Vec<&CachedObject> = cached.objects().filter(|part| part.is_orphan_of(cluster)).collect();
    if orphans.is_empty() {
        let is_deleted_with_root = |part: &&CachedObject| {
            let root = cluster.observed.object.as_ref();
            part.leaving.is_some() || root.is_some_and(|root| part.owners.contains(root))
        };
        let remaining = cached.objects().filter(is_deleted_with_root).map(remaining_object).collect();
        return Observed { object: ObjectState::Absent, members, remaining, ..Observed::default() };
    }
    let projections = cached.projections();
    let names: Vec<String> =
        orphans.iter().map(|part| format!("{} '{}'", part.kind.kind, part.name)).collect();
    let deleted = format!("its root object was deleted without {}: delete the cluster", names.join(", "));
    // The other objects have the mark that the root had at its creation: they can only confirm the row's mark.
    let confirms = |part: &&CachedObject| part.ephemeral.as_ref() == cluster.ephemeral.as_deref();
    let mark = cluster.ephemeral.as_deref().filter(|_| orphans.iter().any(confirms));
    let spec = ObjectSpec {
        identity: cluster.observed.object.clone().unwrap_or_default(),
        fence: cached.fence(context.fences),
        generation: cluster.observed.object_generation,
        groups: cluster.groups.iter().map(group_of_row).collect(),
        leaving: false,
        suspended: false,
        unfinished: false,
        missing: std::iter::once("its root object".to_owned())
            .chain(flavor.missing_objects(&key.name, &projections))
            .collect(),
        workers_outlive_head: true,
        pending: Vec::new(),
        refused: vec![deleted],
        reported_state: None,
        ports: BTreeMap::new(),
        // Only the app that the cluster ends with is known of the content.
        content: (mark != cluster.ephemeral.as_deref()).then(|| Box::new(content_with(cluster, mark))),
    };
    Observed { object: ObjectState::Present(spec), members, ..Observed::default() }
}

/// The highest number of events in an observation; the latest are kept.
const MAX_EVENTS: usize = 50;

fn latest(mut events: Vec<ExternalEvent>) -> Vec<ExternalEvent> {
    events.sort_by_key(|event| event.version);
    events.split_off(events.len().saturating_sub(MAX_EVENTS))
}

/// Returns the reasons why the operator does not act on the cluster, from an event about the present root or from the
/// objects.
fn refusals(
    flavor: &dyn Flavor,
    root: &CachedObject,
    projections: &[&ObjectProjection],
    events: &[ExternalEvent],
) -> Vec<String> {
    // A refusal older than the last change of the root is ignored: that change may have removed its cause. Versions of
    // events and objects can be compared only if one etcd has both, which is the default. Nothing else is as exact:
    // times are whole seconds of several clocks, and a repeated event names the root's version of its first occurrence.
    let version: u64 = root.version.parse().unwrap_or(u64::MAX);
    let is_refusal = |event: &&ExternalEvent| {
        event.version > version && flavor.rejection_reasons().contains(&event.reason.as_str())
    };
    match events.iter().rfind(is_refusal) {
        Some(refusal) => vec![refusal.message.clone()],
        None => projections.iter().flat_map(|object| object.rejections.clone()).collect(),
    }
}

/// The time that an operator may take to react to a new or changed object.
pub(crate) const OPERATOR_GRACE: TimeSpan = TimeSpan::from_secs(30);

/// Returns the reasons why the cluster as a whole is not ready; pods have reasons of their own.
fn pending_reasons(
    flavor: &dyn Flavor,
    cached: &CachedCluster,
    root: &CachedObject,
    accepted: bool,
    now: Timestamp,
) -> Vec<String> {
    let mut pending: Vec<String> =
        cached.projections().iter().flat_map(|object| object.pending.clone()).collect();
    pending.extend(finalizer_reason(root));
    let Some(operator) = flavor.operator().filter(|_| accepted) else { return pending };
    let seconds = OPERATOR_GRACE.secs();
    let overdue = root.created_at.is_some_and(|created_at| now.since(created_at) >= OPERATOR_GRACE);
    let unanswered = cached.unanswered_for(now).is_some_and(|time| time >= OPERATOR_GRACE);
    if overdue && !root.projection.acknowledged {
        pending
            .push(format!("{operator} has not reacted to the cluster for {seconds} s: check that it runs"));
    } else if unanswered && !has_desired_size(cached) {
        pending.push(format!("{operator} has not reacted to the change for {seconds} s: check that it runs"));
    }
    pending
}

/// Returns true if there are as many workers as the groups specify.
fn has_desired_size(cached: &CachedCluster) -> bool {
    let projections = cached.projections();
    let desired: u32 = merge_groups(&projections).iter().map(|group| group.desired).sum();
    let workers = cached.members().filter(|pod| pod.member.role == NodeRole::Worker && !pod.leaving).count();
    usize::try_from(desired).is_ok_and(|desired| desired == workers)
}

/// Returns the group of a row, as if it had been observed.
fn group_of_row(group: &WorkerGroup) -> ObservedGroup {
    ObservedGroup {
        name: group.name.clone(),
        desired: group.desired,
        bounds: None,
        floor_differs: false,
        autoscaled: false,
        template: None,
    }
}

fn content_with(cluster: &Cluster, mark: Option<&EphemeralMark>) -> ObjectContent {
    ObjectContent {
        digest: cluster.observed.object_content.clone(),
        labels: cluster.labels.clone(),
        annotations: cluster.annotations.clone(),
        owner: cluster.owner.clone(),
        user: cluster.user.clone(),
        ephemeral: mark.cloned(),
        shown: None,
    }
}

/// Returns the reason for an object that outlives its root.
fn remaining_object(object: &CachedObject) -> String {
    let still_exists = || format!("{} '{}' still exists", object.kind.kind, object.name);
    finalizer_reason(object).unwrap_or_else(still_exists)
}

/// Returns the finalizers that delay the deletion of an object, as a reason.
fn finalizer_reason(object: &CachedObject) -> Option<String> {
    let finalizers = object.leaving.as_ref().filter(|finalizers| !finalizers.is_empty())?;
    let (kind, name) = (object.kind.kind, &object.name);
    Some(format!("{kind} '{name}' waits for its finalizers: {}", finalizers.join(", ")))
}

fn observed_group(group: &GroupProjection, autoscalers: &[&ObservedAutoscaler]) -> ObservedGroup {
    let is_of_group =
        |autoscaler: &&&ObservedAutoscaler| autoscaler.group.as_ref().is_none_or(|name| *name == group.name);
    let autoscaler = autoscalers.iter().find(is_of_group);
    let bounds = autoscaler.and_then(|autoscaler| autoscaler.bounds).or(group.bounds);
    ObservedGroup {
        name: group.name.clone(),
        desired: group.desired,
        bounds: bounds.map(|(min, max)| Bounds { min, max }),
        floor_differs: group.floor_differs,
        autoscaled: autoscaler.is_some(),
        template: Some(WorkerTemplate {
            image: group.template.image.clone(),
            shape: group.template.shape.clone(),
            ..WorkerTemplate::default()
        }),
    }
}

fn observed_member(
    pod: &ClusterPod,
    current_template: Option<&PodTemplate>,
    context: &ObservationContext<'_>,
) -> ObservedMember {
    let identity = if pod.member.keeps_name { pod.name.clone() } else { pod.uid.clone() };
    ObservedMember {
        id: MemberId { identity, uid: pod.uid.clone() },
        name: pod.name.clone(),
        role: pod.member.role,
        group: pod.member.group.clone(),
        observation: pod.observation.clone(),
        reason: reason(pod, context),
        leaving: pod.leaving,
        outdated: current_template.is_some_and(|template| *template != pod.template),
        created_at: pod.created_at,
    }
}

/// Returns the reason why a pod is not ready, with the last lines of its log if it is in a crash loop.
fn reason(pod: &ClusterPod, context: &ObservationContext<'_>) -> String {
    if let Some(slot) = &pod.awaited_slot {
        return slot_reason(slot, (context.queue_place)(slot, &pod.name));
    }
    let log = pod.crash_loop.as_ref().map(|_| (context.crash_log)(&pod.uid)).unwrap_or_default();
    if log.is_empty() { pod.reason.clone() } else { format!("{}; its last lines:\n{log}", pod.reason) }
}

/// Returns the reason of a pod that waits for a slot.
fn slot_reason(AwaitedSlot { group, machine_type }: &AwaitedSlot, place: QueuePlace) -> String {
    match place {
        QueuePlace::Position(position) => format!("waiting for slot {position} of {machine_type}"),
        QueuePlace::Unknown => format!("waiting for a slot of {group}/{machine_type}"),
        QueuePlace::NoMachine => format!(
            "waiting for a slot of {group}/{machine_type}: machine-group {group} has no Machine any more; create one, or \
             delete the cluster"
        ),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::in_a_queue(QueuePlace::Position(2), "waiting for slot 2 of t")]
    #[case::unknown(QueuePlace::Unknown, "waiting for a slot of g/t")]
    #[case::without_a_machine(
        QueuePlace::NoMachine,
        "waiting for a slot of g/t: machine-group g has no Machine any more; create one, or delete the cluster"
    )]
    fn a_pod_without_a_slot_has_a_reason(#[case] place: QueuePlace, #[case] expected: &str) {
        let slot = AwaitedSlot { group: "g".to_owned(), machine_type: "t".to_owned() };
        assert_eq!(slot_reason(&slot, place), expected);
    }
}
