//! What is there of a flavor: every cluster's objects and pods, as the watches tell of them.
//!
//! What was just written is taken in with the answer to the write, so that nobody who looks afterwards sees less; what
//! watches tell late is older, and is passed over.

mod site;
mod take;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use muster_core::ids::ClusterId;
use muster_core::time::Timestamp;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_engine::ports::provider::{ProviderError, Unobserved, WorldChange};
use muster_frameworks::kubernetes::{Flavor, Part, Watched};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::broadcast;

pub(crate) use site::Site;
pub(crate) use take::{Objects, Pods};

use crate::content::{Content, RecentContent};
use crate::facts::{LeanPod, ObjectFacts, is_older};
use crate::observe::NOTICED_WITHIN;
use crate::stale::StaleWatches;

/// Where a cluster is, and what its root is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One watch of a flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watch {
    /// Which one of the flavor's.
    pub(crate) index: usize,
    /// What it is about.
    pub(crate) of: Of,
    /// Where; everywhere if nothing is said.
    pub(crate) namespace: Option<String>,
}

/// What a watch is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Objects that say how clusters should be.
    Objects(&'static Watched),
    /// Their pods.
    Pods,
}

/// The clusters of one flavor.
pub(crate) struct Sites {
    pub(crate) flavor: &'static dyn Flavor,
    /// What is watched.
    kinds: Vec<Of>,
    state: Mutex<State>,
    changes: broadcast::Sender<WorldChange>,
}

#[derive(Default)]
struct State {
    sites: HashMap<Key, Site>,
    stale: StaleWatches,
    /// What is gone, and may still be reported: by a watch that is late, or by the answer to a write.
    graves: Graves,
    /// The content of the roots that changed last.
    recent: RecentContent,
    /// Where what has a UID is.
    places: HashMap<String, Key>,
    /// Rises with everything that is taken in.
    moment: u64,
}

impl State {
    /// What was not named since that moment is not there; no namespace is all of them.
    fn forget(&mut self, of: Of, namespace: Option<&str>, begun: u64) {
        let is_within = |key: &Key| namespace.is_none_or(|namespace| namespace == key.namespace);
        for (_, site) in self.sites.iter_mut().filter(|(key, _)| is_within(key)) {
            site.forget(of, begun);
        }
        self.sites.retain(|_, site| !site.is_empty());
        let Self { sites, places, .. } = self;
        places.retain(|uid, key| sites.get(key).is_some_and(|site| site.uids().any(|known| known == uid)));
    }
}

impl Sites {
    /// Nothing is known until each of the watches has listed everything.
    pub(crate) fn new(
        flavor: &'static dyn Flavor,
        watches: &[Watch],
        changes: broadcast::Sender<WorldChange>,
    ) -> Self {
        let stale = StaleWatches::of(watches.iter().map(|watch| (watch.index, watch.namespace.clone())));
        let places = |watch: &Watch| watches.first().is_some_and(|first| first.namespace == watch.namespace);
        let kinds = watches.iter().filter(|watch| places(watch)).map(|watch| watch.of).collect();
        Self { flavor, kinds, state: Mutex::new(State { stale, ..State::default() }), changes }
    }

    /// A cluster as it is; the sentence says why nobody can tell.
    pub(crate) fn look(&self, key: &Key) -> Result<Site, ProviderError> {
        let state = self.state.lock();
        state.stale.check(&key.namespace)?;
        Ok(state.sites.get(key).cloned().unwrap_or_default())
    }

    /// Every cluster whose root is there, in namespaces whose watches are in sync. When others are, subscribers are
    /// notified.
    pub(crate) fn clusters(&self) -> Vec<ClusterId> {
        let state = self.state.lock();
        let known = state.sites.iter().filter(|(key, _)| state.stale.check(&key.namespace).is_ok());
        known.filter_map(|(_, site)| site.rooted()).collect()
    }

    /// The namespaces whose watches cannot report at present.
    pub(crate) fn unobserved(&self) -> Vec<Unobserved> {
        let state = self.state.lock();
        let unobserved = |(namespace, reason): (Option<&str>, &str)| Unobserved {
            namespace: namespace.map(str::to_owned),
            flavor: Some(self.flavor.name()),
            reason: reason.to_owned(),
        };
        state.stale.reasons().map(unobserved).collect()
    }

    /// Where the root of a cluster is.
    pub(crate) fn find(&self, cluster: ClusterId) -> Option<Key> {
        let state = self.state.lock();
        state.sites.iter().find(|(_, site)| site.rooted() == Some(cluster)).map(|(key, _)| key.clone())
    }

    /// What stands there for a cluster is a copy of what stood for it: it is known by its UID from now on.
    pub(crate) fn disown(&self, cluster: ClusterId) {
        let own = {
            let mut state = self.state.lock();
            let site = state.sites.values_mut().find(|site| site.rooted() == Some(cluster));
            site.and_then(Site::disown)
        };
        self.tell_of(own);
    }

    /// A watch begins to tell all; what it does not name from this moment on is not there.
    pub(crate) fn begin(&self) -> u64 {
        let mut state = self.state.lock();
        state.moment += 1;
        state.moment
    }

    /// A watch has listed everything, since that moment.
    pub(crate) fn complete(&self, watch: &Watch, begun: u64) {
        let in_sync = {
            let mut state = self.state.lock();
            state.forget(watch.of, watch.namespace.as_deref(), begun);
            state.stale.remove(watch.index);
            state.stale.is_in_sync(watch.namespace.as_deref())
        };
        if in_sync {
            self.tell(WorldChange::Everything);
        }
    }

    /// Everything of a kind that is in a namespace was listed, since that moment.
    pub(crate) fn listed(&self, of: Of, namespace: &str, begun: u64) {
        self.state.lock().forget(of, Some(namespace), begun);
    }

    /// What is watched.
    pub(crate) fn kinds(&self) -> &[Of] {
        &self.kinds
    }

    /// Whether the object with this UID is known to be gone.
    pub(crate) fn is_gone(&self, uid: &str) -> bool {
        self.state.lock().graves.contains(uid)
    }

    /// A watch cannot tell any more.
    pub(crate) fn lost(&self, watch: &Watch, why: String) {
        self.state.lock().stale.add(watch.index, watch.namespace.clone(), why);
    }

    /// An object is so now. If it was read since a moment, what was known before that is older, whatever its version.
    pub(crate) fn take_object(&self, since: Option<u64>, watched: &Watched, object: &Value, tell: bool) {
        let Some(words) = self.flavor.read(watched.kind, object) else { return };
        let mut facts = ObjectFacts::read(watched.kind, object, words);
        if watched.part == Part::Root {
            let content = Content::read(self.flavor, object);
            facts.content = Some(content.digest().to_owned());
            self.state.lock().recent.add(&facts.uid, content);
        }
        let key = Key { namespace: facts.namespace.clone(), name: facts.words.cluster.clone() };
        let (cluster, noticed) = (facts.cluster, facts.words.noticed);
        let mut is_new_root = false;
        let changed = self.with_site(key, &facts.uid.clone(), since, |site, arrival| match watched.part {
            Part::Root => {
                is_new_root = site.root.as_ref().is_none_or(|root| root.value.uid != facts.uid);
                site.take_root(facts, arrival)
            }
            Part::More => site.take_more(facts, arrival),
            Part::Maker => site.take_made(facts, arrival),
        });
        if is_new_root && !noticed {
            self.tell_later(cluster);
        }
        self.tell_of(changed.filter(|_| tell));
    }

    /// The content of a root, if it is at hand and has this digest.
    pub(crate) fn recent_content(&self, uid: &str, digest: &str) -> Option<Content> {
        self.state.lock().recent.get(uid, digest)
    }

    /// An object is gone.
    pub(crate) fn drop_object(&self, watched: &Watched, object: &Value) {
        let Some(words) = self.flavor.read(watched.kind, object) else { return };
        let facts = ObjectFacts::read(watched.kind, object, words);
        let key = Key { namespace: facts.namespace.clone(), name: facts.words.cluster.clone() };
        let changed = self.without(&key, &facts.uid, |site| site.drop_object(&facts));
        self.tell_of(changed);
    }

    /// What a write removed, before any watch tells of it.
    pub(crate) fn bury(&self, key: &Key, uid: &str) {
        let changed = self.without(key, uid, |site| {
            if site.root.as_ref().is_some_and(|root| root.value.uid == uid) {
                site.root = None;
            }
        });
        self.tell_of(changed);
    }

    /// A pod is so now, and was read since that moment if one is given.
    pub(crate) fn take_pod(&self, since: Option<u64>, pod: LeanPod, tell: bool) {
        let namespace = pod.namespace().to_owned();
        let Some(facts) = pod.facts(self.flavor) else { return };
        let key = Key { namespace, name: facts.member.cluster.clone() };
        let changed =
            self.with_site(key, &facts.uid.clone(), since, |site, arrival| site.take_pod(facts, arrival));
        self.tell_of(changed.filter(|_| tell));
    }

    /// A pod is gone.
    pub(crate) fn drop_pod(&self, pod: LeanPod) {
        let namespace = pod.namespace().to_owned();
        let Some(facts) = pod.facts(self.flavor) else { return };
        let key = Key { namespace, name: facts.member.cluster.clone() };
        let changed = self.without(&key, &facts.uid, |site| site.drop_pod(&facts));
        self.tell_of(changed);
    }

    /// Changes a site; tells which cluster is other than before.
    fn with_site(
        &self,
        key: Key,
        uid: &str,
        read_since: Option<u64>,
        change: impl FnOnce(&mut Site, Arrival) -> bool,
    ) -> Option<ClusterId> {
        let mut state = self.state.lock();
        if state.graves.contains(uid) {
            return None;
        }
        state.moment += 1;
        let arrival = Arrival { moment: state.moment, at: SystemClock.now(), read_since };
        state.places.insert(uid.to_owned(), key.clone());
        let site = state.sites.entry(key).or_default();
        change(site, arrival).then_some(site.cluster).flatten()
    }

    fn without(&self, key: &Key, uid: &str, change: impl FnOnce(&mut Site)) -> Option<ClusterId> {
        let mut state = self.state.lock();
        state.graves.add(uid);
        state.places.remove(uid);
        state.recent.remove(uid);
        let site = state.sites.get_mut(key)?;
        change(site);
        let cluster = site.cluster;
        if site.is_empty() {
            state.sites.remove(key);
        }
        cluster
    }

    /// Something was heard of the object with this UID.
    pub(crate) fn tell_about(&self, uid: &str) {
        let cluster = {
            let state = self.state.lock();
            state.places.get(uid).and_then(|key| state.sites.get(key)?.cluster)
        };
        self.tell_of(cluster);
    }

    fn tell_of(&self, cluster: Option<ClusterId>) {
        if let Some(cluster) = cluster {
            self.tell(WorldChange::Cluster(cluster));
        }
    }

    /// Somebody looks again when an operator has had its time to look.
    fn tell_later(&self, cluster: Option<ClusterId>) {
        let (Some(cluster), changes) = (cluster, self.changes.clone()) else { return };
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from(NOTICED_WITHIN)).await;
            drop(changes.send(WorldChange::Cluster(cluster)));
        });
    }

    fn tell(&self, change: WorldChange) {
        // Nobody may be listening; whoever looks will see.
        drop(self.changes.send(change));
    }
}

/// The UIDs of what was there last; none of them comes again.
#[derive(Default)]
pub(crate) struct Graves {
    all: HashSet<String>,
    order: VecDeque<String>,
}

impl Graves {
    /// More than may be reported late.
    const MOST: usize = 4096;

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.all.contains(uid)
    }

    pub(crate) fn add(&mut self, uid: &str) {
        if !self.all.insert(uid.to_owned()) {
            return;
        }
        self.order.push_back(uid.to_owned());
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }
}

/// When something arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    moment: u64,
    at: Timestamp,
    /// It was read since then; what a watch reports may be older than that.
    read_since: Option<u64>,
}

/// A thing as last reported, and when that was.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cached<T> {
    pub(crate) value: T,
    moment: u64,
}

impl<T: PartialEq> Cached<T> {
    /// Takes what is reported now, unless that is older; whether it says something else than before.
    fn take(&mut self, value: T, arrival: Arrival, version: impl Fn(&T) -> (&str, &str)) -> bool {
        // A Kubernetes that was restored from a backup has lower versions than it had before.
        let is_read = arrival.read_since.is_some_and(|since| self.moment < since);
        self.moment = arrival.moment;
        let ((uid, now), (known, then)) = (version(&value), version(&self.value));
        if (uid == known && is_older(now, then) && !is_read) || self.value == value {
            return false;
        }
        self.value = value;
        true
    }
}

#[cfg(test)]
mod tests;
