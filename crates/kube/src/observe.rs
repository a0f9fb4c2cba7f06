//! What a site says of its cluster. Pure.

use std::collections::BTreeMap;

use muster_core::cluster::{Cluster, WorkerTemplate};
use muster_core::node::NodeRole;
use muster_core::time::{TimeSpan, Timestamp};
use muster_engine::ports::provider::{
    Bounds, ExternalEvent, MemberId, ObjectSpec, ObjectState, Observed, ObservedGroup, ObservedMember,
};
use muster_frameworks::kubernetes::{Autoscaler, Flavor, GroupWords, NodeWords, Words, groups};

use crate::facts::{ObjectFacts, PodFacts};
use crate::fences::Fences;
use crate::sites::{Key, Site};

/// What is known beside what objects and pods say.
pub(crate) struct Others<'a> {
    /// Which fences are ours.
    pub(crate) fences: &'a Fences,
    /// What Kubernetes told of an object.
    pub(crate) heard: &'a dyn Fn(&str) -> Vec<ExternalEvent>,
    /// The last words of a pod whose container keeps dying.
    pub(crate) last_words: &'a dyn Fn(&str) -> String,
    /// What time it is.
    pub(crate) now: Timestamp,
}

/// What is seen of a cluster whose objects stand at a site.
pub(crate) fn observed(
    flavor: &dyn Flavor,
    key: &Key,
    site: &Site,
    cluster: &Cluster,
    others: &Others<'_>,
) -> Observed {
    let root = match &site.root {
        Some(root) if root.value.stands_for(cluster) => &root.value,
        // Another cluster stands there now.
        Some(_) => return Observed { object: ObjectState::Absent, ..Observed::default() },
        None => {
            let members = site.members().map(|pod| member(pod, None, others)).collect();
            let remaining = site.objects().filter_map(waits_to_go).collect();
            return Observed { object: ObjectState::Absent, members, remaining, ..Observed::default() };
        }
    };
    let words = site.words();
    let groups = groups(&words);
    let autoscalers: Vec<&Autoscaler> = words.iter().filter_map(|words| words.autoscaler.as_ref()).collect();
    let made_from = |pod: &PodFacts| match pod.member.role {
        NodeRole::Head => Some(&root.words.head),
        NodeRole::Worker => {
            let group = groups.iter().find(|group| Some(&group.name) == pod.member.group.as_ref());
            group.map(|group| &group.made_from)
        }
        NodeRole::Unknown(_) => None,
    };
    let refused = refused(flavor, root, &words, &(others.heard)(&root.uid));
    Observed {
        members: site.members().map(|pod| member(pod, made_from(pod), others)).collect(),
        object: ObjectState::Present(ObjectSpec {
            identity: root.uid.clone(),
            fence: site.fence(others.fences),
            generation: site.generation(),
            groups: groups.iter().map(|group| seen_group(group, &autoscalers)).collect(),
            leaving: root.leaving.is_some(),
            suspended: root.words.suspended,
            unfinished: !flavor.is_whole(&words),
            missing: flavor.missing(&key.name, &words),
            workers_outlive_head: root.words.head_remembers,
            pending: pending(flavor, site, root, refused.is_empty(), others.now),
            refused,
            reported_state: root.words.state.clone(),
            ports: root.words.ports.clone(),
            content: None,
        }),
        external_events: last(site.uids().flat_map(others.heard).collect()),
        endpoints: BTreeMap::from(flavor.endpoints(&key.namespace, &key.name)),
        ..Observed::default()
    }
}

/// The most that is told of a cluster's objects: what was heard last.
const HEARD: usize = 50;

fn last(mut heard: Vec<ExternalEvent>) -> Vec<ExternalEvent> {
    heard.sort_by_key(|heard| heard.version);
    heard.split_off(heard.len().saturating_sub(HEARD))
}

/// Why its operator does not act on it: in its own words, if it has said so of the root as that is now.
fn refused(
    flavor: &dyn Flavor,
    root: &ObjectFacts,
    words: &[&Words],
    heard: &[ExternalEvent],
) -> Vec<String> {
    // Events and objects are counted alike: what was said before the last change may be mended by it.
    let version: u64 = root.version.parse().unwrap_or(u64::MAX);
    let is_refusal = |heard: &&ExternalEvent| {
        heard.version > version && flavor.refusals().contains(&heard.reason.as_str())
    };
    match heard.iter().rfind(is_refusal) {
        Some(refusal) => vec![refusal.message.clone()],
        None => words.iter().flat_map(|words| words.refused.clone()).collect(),
    }
}

/// How long an operator may take to look at an object.
pub(crate) const NOTICED_WITHIN: TimeSpan = TimeSpan::from_secs(30);

/// What everything waits for, beside pods that say so themselves.
fn pending(
    flavor: &dyn Flavor,
    site: &Site,
    root: &ObjectFacts,
    accepted: bool,
    now: Timestamp,
) -> Vec<String> {
    let mut pending: Vec<String> = site.words().iter().flat_map(|words| words.pending.clone()).collect();
    pending.extend(waits_to_go(root));
    let Some(operator) = flavor.operator().filter(|_| accepted) else { return pending };
    let seconds = NOTICED_WITHIN.secs();
    let overdue = root.made_at.is_some_and(|made_at| now.since(made_at) >= NOTICED_WITHIN);
    if overdue && !root.words.noticed {
        pending.push(format!("{operator} has not taken note of it within {seconds} seconds: is it running?"));
    } else if site.unanswered_for(now).is_some_and(|time| time >= NOTICED_WITHIN) && !has_its_size(site) {
        pending.push(format!("{operator} has not acted on it for {seconds} seconds: is it running?"));
    }
    pending
}

/// Whether there are as many workers as there should be.
fn has_its_size(site: &Site) -> bool {
    let words = site.words();
    let desired: u32 = groups(&words).iter().map(|group| group.desired).sum();
    let workers = site.members().filter(|pod| pod.member.role == NodeRole::Worker && !pod.leaving).count();
    usize::try_from(desired).is_ok_and(|desired| desired == workers)
}

/// What keeps an object from going that was deleted.
fn waits_to_go(object: &ObjectFacts) -> Option<String> {
    let finalizers = object.leaving.as_ref().filter(|finalizers| !finalizers.is_empty())?;
    let (kind, name) = (object.kind.kind, &object.name);
    Some(format!("{kind} '{name}' waits for its finalizers: {}", finalizers.join(", ")))
}

fn seen_group(group: &GroupWords, autoscalers: &[&Autoscaler]) -> ObservedGroup {
    let concerned =
        |autoscaler: &&&Autoscaler| autoscaler.group.as_ref().is_none_or(|name| *name == group.name);
    let autoscaler = autoscalers.iter().find(concerned);
    let bounds = autoscaler.and_then(|autoscaler| autoscaler.bounds).or(group.bounds);
    ObservedGroup {
        name: group.name.clone(),
        desired: group.desired,
        bounds: bounds.map(|(min, max)| Bounds { min, max }),
        floor_differs: group.floor_differs,
        autoscaled: autoscaler.is_some(),
        template: Some(WorkerTemplate {
            image: group.made_from.image.clone(),
            shape: group.made_from.shape.clone(),
            ..WorkerTemplate::default()
        }),
    }
}

fn member(pod: &PodFacts, made_from: Option<&NodeWords>, others: &Others<'_>) -> ObservedMember {
    let identity = if pod.member.keeps_name { pod.name.clone() } else { pod.uid.clone() };
    ObservedMember {
        id: MemberId { identity, uid: pod.uid.clone() },
        name: pod.name.clone(),
        role: pod.member.role,
        group: pod.member.group.clone(),
        observation: pod.seen.clone(),
        reason: reason(pod, others),
        leaving: pod.leaving,
        outdated: made_from.is_some_and(|made_from| *made_from != pod.made_from),
        created_at: pod.created_at,
    }
}

/// Why it does not work yet, with its last words where it keeps dying.
fn reason(pod: &PodFacts, others: &Others<'_>) -> String {
    let words = pod.crashed.as_ref().map(|_| (others.last_words)(&pod.uid)).unwrap_or_default();
    if words.is_empty() { pod.reason.clone() } else { format!("{}; its last lines:\n{words}", pod.reason) }
}
