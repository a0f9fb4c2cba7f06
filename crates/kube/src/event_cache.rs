//! Events that Kubernetes published, by the object that they are about.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_engine::ports::provider::ExternalEvent;
use parking_lot::Mutex;

use crate::projection::LeanEvent;
use crate::watches::WatchSink;

/// The number of events that are kept for each object, the latest ones.
const MAX_PER_OBJECT: usize = 20;

/// The latest events of each object, for as long as Kubernetes has them.
#[derive(Default)]
pub(crate) struct EventCache {
    state: Mutex<EventCacheState>,
}

#[derive(Default)]
struct EventCacheState {
    by_object: HashMap<String, BTreeMap<u64, CachedEvent>>,
    epoch: u64,
}

struct CachedEvent {
    event: ExternalEvent,
    /// The number of the watch that reported the event.
    watch: usize,
    /// The epoch of the list that contained the event, or during which it was reported.
    epoch: u64,
}

impl EventCacheState {
    /// Removes events, and objects of which no event is left.
    fn retain(&mut self, keep: impl Fn(&CachedEvent) -> bool) {
        self.by_object.retain(|_, own| {
            own.retain(|_, cached| keep(cached));
            !own.is_empty()
        });
    }
}

impl EventCache {
    /// Adds an event, and returns the UID of the object that it is about; none for an event that cannot be read.
    fn insert_event(&self, event: LeanEvent, watch: usize) -> Option<String> {
        let about = event.about().to_owned();
        let event = event.into_external_event()?;
        let mut state = self.state.lock();
        let epoch = state.epoch;
        let own = state.by_object.entry(about.clone()).or_default();
        // A repeated event has the same id, and a later version.
        own.retain(|_, known| known.event.id != event.id);
        own.insert(event.version, CachedEvent { event, watch, epoch });
        while own.len() > MAX_PER_OBJECT {
            own.pop_first();
        }
        Some(about)
    }

    /// Removes an event that Kubernetes has deleted.
    fn remove_event(&self, event: &LeanEvent) {
        let mut state = self.state.lock();
        if let Some(own) = state.by_object.get_mut(event.about()) {
            own.retain(|_, known| known.event.id.to_string() != event.uid());
            if own.is_empty() {
                state.by_object.remove(event.about());
            }
        }
    }

    /// Returns the events of an object by its UID, the oldest first.
    pub(crate) fn events_about(&self, uid: &str) -> Vec<ExternalEvent> {
        let state = self.state.lock();
        let own = state.by_object.get(uid).into_iter().flat_map(BTreeMap::values);
        own.map(|cached| cached.event.clone()).collect()
    }
}

/// Receives events of a watch. `notify` is called with the UID of the object that a new event is about.
pub(crate) struct EventSink<F> {
    pub(crate) events: Arc<EventCache>,
    /// The number of this watch among those of the cache. Each event is reported by one of them.
    pub(crate) watch: usize,
    pub(crate) notify: F,
}

impl<F: Fn(&str) + Send + Sync> WatchSink<LeanEvent> for EventSink<F> {
    fn begin(&self) -> u64 {
        let mut state = self.events.state.lock();
        state.epoch += 1;
        state.epoch
    }

    fn apply(&self, event: LeanEvent, listed_since: Option<u64>) {
        let about = self.events.insert_event(event, self.watch);
        if let Some(about) = about.filter(|_| listed_since.is_none()) {
            (self.notify)(&about);
        }
    }

    fn delete(&self, event: LeanEvent) {
        self.events.remove_event(&event);
    }

    fn synced(&self, begun: u64) {
        self.events.state.lock().retain(|cached| cached.watch != self.watch || cached.epoch >= begun);
    }

    fn lost(&self, _: String) {
        // The cached events remain true while no new ones are reported.
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(number: u32) -> LeanEvent {
        let metadata = json!({
            "namespace": "demo", "name": format!("e{number}"), "resourceVersion": number.to_string(),
            "uid": format!("0190f3a2-7b1c-4d4e-8f00-{number:012}"), "creationTimestamp": "2026-01-01T00:00:00Z",
        });
        let about = json!({"kind": "RayCluster", "name": "fred", "uid": "u"});
        serde_json::from_value(json!({"metadata": metadata, "involvedObject": about})).expect("an event")
    }

    fn sinks() -> [EventSink<fn(&str)>; 2] {
        let (events, notify): (_, fn(&str)) = (Arc::new(EventCache::default()), |_| {});
        [0, 1].map(|watch| EventSink { events: Arc::clone(&events), watch, notify })
    }

    fn versions(events: &EventCache) -> Vec<u64> {
        events.events_about("u").iter().map(|event| event.version).collect()
    }

    #[test]
    fn an_event_that_a_complete_list_lacks_is_removed() {
        let [sink, _] = sinks();
        let begun = sink.begin();
        sink.apply(event(1), Some(begun));
        sink.apply(event(2), Some(begun));
        sink.synced(begun);
        assert_eq!(versions(&sink.events), [1, 2]);
        // Kubernetes deleted the first event while the watch was interrupted.
        sink.lost("no answer".to_owned());
        let begun = sink.begin();
        sink.apply(event(2), Some(begun));
        sink.apply(event(3), Some(begun));
        sink.synced(begun);
        assert_eq!(versions(&sink.events), [2, 3]);
    }

    #[test]
    fn an_object_without_events_is_removed() {
        let [sink, _] = sinks();
        sink.apply(event(1), None);
        sink.synced(sink.begin());
        assert!(sink.events.state.lock().by_object.is_empty());
    }

    #[test]
    fn a_complete_list_of_one_watch_leaves_the_events_of_another() {
        let [one, other] = sinks();
        other.apply(event(1), None);
        one.synced(one.begin());
        assert_eq!(versions(&one.events), [1]);
    }
}
