//! One cluster's objects and pods.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use muster_core::action::Fence;
use muster_core::ids::ClusterId;
use muster_core::node::{NodeRole, Observation};
use muster_core::time::{TimeSpan, Timestamp};
use muster_frameworks::kubernetes::{Part, Words};

use super::{Arrival, Cached, Of};
use crate::facts::{ObjectFacts, PodFacts};
use crate::fences::Fences;

/// Objects and pods of one cluster, as far as they are there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Site {
    /// While it is there the cluster is.
    pub(crate) root: Option<Cached<ObjectFacts>>,
    /// What else says how it should be, by kind and name.
    more: BTreeMap<(&'static str, String), Cached<ObjectFacts>>,
    pods: BTreeMap<String, Cached<PodFacts>>,
    /// Which cluster it is, also when its root is gone and its pods are not.
    pub(super) cluster: Option<ClusterId>,
    /// Since when its operator has been asked for something and has shown no sign of acting on it.
    unanswered_since: Option<Timestamp>,
}

impl Site {
    /// Which cluster it is, while its root is there.
    pub(super) fn rooted(&self) -> Option<ClusterId> {
        self.root.as_ref()?.value.cluster
    }

    /// Everything that says how the cluster should be, the root first.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &ObjectFacts> {
        self.root.iter().chain(self.more.values()).map(|cached| &cached.value)
    }

    /// What they all say, the root's words first.
    pub(crate) fn words(&self) -> Vec<&Words> {
        self.objects().map(|object| &object.words).collect()
    }

    /// The newest fence of this database that they carry.
    pub(crate) fn fence(&self, fences: &Fences) -> Fence {
        let written = self.objects().filter_map(|object| fences.read(object.fence.as_ref()));
        written.max().unwrap_or(Fence(0))
    }

    /// Rises whenever anyone changes what one of them specifies.
    pub(crate) fn generation(&self) -> u64 {
        self.objects().map(|object| u64::try_from(object.generation).unwrap_or_default()).sum()
    }

    /// The object of a kind and name.
    pub(crate) fn object(&self, kind: &str, name: &str) -> Option<&ObjectFacts> {
        self.objects().find(|object| object.kind.kind == kind && object.name == name)
    }

    /// The UIDs of all that is there.
    pub(crate) fn uids(&self) -> impl Iterator<Item = &str> {
        self.objects().map(|object| object.uid.as_str()).chain(self.pods().map(|pod| pod.uid.as_str()))
    }

    /// Its pods, by name.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &PodFacts> {
        self.pods.values().map(|cached| &cached.value)
    }

    /// Those that count: one that has ended is not a member any more where another is made in its place.
    pub(crate) fn members(&self) -> impl Iterator<Item = &PodFacts> {
        self.pods().filter(|pod| !(pod.is_replaced && matches!(pod.seen, Observation::Exited { .. })))
    }

    /// Whether its operator knows of all pods that work, as far as it says so. Before that none of them may be deleted:
    /// KubeRay waits for pods that it has made, and if one is gone before it has seen it, looks again after 300 s.
    pub(crate) fn is_known_to_operator(&self) -> bool {
        let Some(words) = self.root.as_ref().map(|root| &root.value.words) else { return true };
        let working = |role: NodeRole| {
            let works = |pod: &&PodFacts| matches!(pod.seen, Observation::Running { .. }) && !pod.leaving;
            self.pods().filter(move |pod| pod.member.role == role).filter(works)
        };
        let knows_head = |known: &String| working(NodeRole::Head).all(|pod| pod.name == *known);
        let workers = working(NodeRole::Worker).count();
        words.known_head.as_ref().is_none_or(knows_head)
            && words
                .known_workers
                .is_none_or(|known| usize::try_from(known).is_ok_and(|known| known >= workers))
    }

    /// A pod by its name.
    pub(crate) fn pod(&self, name: &str) -> Option<&PodFacts> {
        self.pods.get(name).map(|cached| &cached.value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.root.is_none() && self.more.is_empty() && self.pods.is_empty()
    }

    pub(super) fn take_root(&mut self, mut facts: ObjectFacts, arrival: Arrival) -> bool {
        if let Some(known) = self.root.as_ref().filter(|root| root.value.uid == facts.uid) {
            // It stays the cluster that it was, whatever somebody makes of its marks.
            facts.cluster = known.value.cluster;
        }
        self.cluster = facts.cluster;
        let (generation, before) = (facts.generation, self.root.as_ref().map(|root| root.value.generation));
        let changed = match &mut self.root {
            Some(root) => root.take(facts, arrival, object_version),
            none => {
                *none = Some(Cached { value: facts, moment: arrival.moment });
                true
            }
        };
        let asked = before.is_some_and(|before| generation > before);
        self.note_sign(changed, asked.then_some(arrival.at));
        changed
    }

    /// Something was changed: the operator was asked for something at that time, or does something about it.
    fn note_sign(&mut self, changed: bool, asked_at: Option<Timestamp>) {
        if changed {
            self.unanswered_since = asked_at;
        }
    }

    /// How long its operator has shown no sign of acting on what it was asked for last.
    pub(crate) fn unanswered_for(&self, now: Timestamp) -> Option<TimeSpan> {
        self.unanswered_since.map(|since| now.since(since))
    }

    /// Its root is no cluster that anybody knows; tells which one it is instead.
    pub(super) fn disown(&mut self) -> Option<ClusterId> {
        let root = &mut self.root.as_mut()?.value;
        root.cluster = root.uid.parse().ok();
        self.cluster = root.cluster;
        self.cluster
    }

    pub(super) fn take_more(&mut self, facts: ObjectFacts, arrival: Arrival) -> bool {
        let key = (facts.kind.kind, facts.name.clone());
        let (generation, before) =
            (facts.generation, self.more.get(&key).map(|cached| cached.value.generation));
        let changed = renewed(self.more.entry(key), facts, arrival, object_version);
        let asked = before.is_some_and(|before| generation > before);
        self.note_sign(changed, asked.then_some(arrival.at));
        changed
    }

    /// An object that its operator makes.
    pub(super) fn take_made(&mut self, facts: ObjectFacts, arrival: Arrival) -> bool {
        let changed = self.take_more(facts, arrival);
        self.note_sign(changed, None);
        changed
    }

    pub(super) fn take_pod(&mut self, facts: PodFacts, arrival: Arrival) -> bool {
        let is_new = self.pods.get(&facts.name).is_none_or(|cached| cached.value.uid != facts.uid);
        self.note_sign(is_new, None);
        renewed(self.pods.entry(facts.name.clone()), facts, arrival, pod_version)
    }

    pub(super) fn drop_object(&mut self, facts: &ObjectFacts) {
        if self.root.as_ref().is_some_and(|root| root.value.uid == facts.uid) {
            self.root = None;
        }
        self.more.retain(|_, cached| cached.value.uid != facts.uid);
    }

    pub(super) fn drop_pod(&mut self, facts: &PodFacts) {
        // Another one may have its name by now.
        if self.pods.get(&facts.name).is_some_and(|cached| cached.value.uid == facts.uid) {
            self.pods.remove(&facts.name);
            self.note_sign(true, None);
        }
    }

    /// What a watch has not reported since that moment is not there.
    pub(super) fn forget(&mut self, of: Of, begun: u64) {
        match of {
            Of::Pods => self.pods.retain(|_, cached| cached.moment >= begun),
            Of::Objects(watched) if watched.part == Part::Root => {
                self.root = self.root.take().filter(|cached| cached.moment >= begun);
            }
            Of::Objects(watched) => {
                self.more.retain(|(kind, _), cached| *kind != watched.kind.kind || cached.moment >= begun);
            }
        }
    }
}

fn object_version(facts: &ObjectFacts) -> (&str, &str) {
    (&facts.uid, &facts.version)
}

fn pod_version(facts: &PodFacts) -> (&str, &str) {
    (&facts.uid, &facts.version)
}

fn renewed<K: Ord, T: PartialEq>(
    entry: Entry<'_, K, Cached<T>>,
    value: T,
    arrival: Arrival,
    version: impl Fn(&T) -> (&str, &str),
) -> bool {
    match entry {
        Entry::Vacant(vacant) => {
            vacant.insert(Cached { value, moment: arrival.moment });
            true
        }
        Entry::Occupied(mut occupied) => occupied.get_mut().take(value, arrival, version),
    }
}
