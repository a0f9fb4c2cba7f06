//! Events that Kubernetes published, by the object that they are about.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_engine::ports::provider::ExternalEvent;
use parking_lot::Mutex;

use crate::projection::LeanEvent;
use crate::watches::WatchSink;

/// Events are kept per object up to this number, the latest ones.
const MAX_PER_OBJECT: usize = 20;

/// The latest events of each object, for as long as Kubernetes has them.
#[derive(Default)]
pub(crate) struct EventCache {
    by_object: Mutex<HashMap<String, BTreeMap<u64, ExternalEvent>>>,
}

impl EventCache {
    /// Adds an event, and returns the UID of the object that it is about; none for an event that cannot be read.
    pub(crate) fn insert_event(&self, event: LeanEvent) -> Option<String> {
        let about = event.about().to_owned();
        let event = event.into_external_event()?;
        let mut by_object = self.by_object.lock();
        let own = by_object.entry(about.clone()).or_default();
        // A repeated event has the same id, and a later version.
        own.retain(|_, known| known.id != event.id);
        own.insert(event.version, event);
        while own.len() > MAX_PER_OBJECT {
            own.pop_first();
        }
        Some(about)
    }

    /// Removes an event that Kubernetes has deleted.
    pub(crate) fn remove_event(&self, event: &LeanEvent) {
        let mut by_object = self.by_object.lock();
        if let Some(own) = by_object.get_mut(event.about()) {
            own.retain(|_, known| known.id.to_string() != event.uid());
            if own.is_empty() {
                by_object.remove(event.about());
            }
        }
    }

    /// The events of an object by its UID, the oldest first.
    pub(crate) fn events_about(&self, uid: &str) -> Vec<ExternalEvent> {
        self.by_object.lock().get(uid).map(|own| own.values().cloned().collect()).unwrap_or_default()
    }
}

/// Receives events of a watch. `notify` is called with the UID of the object that a new event is about.
pub(crate) struct EventSink<F> {
    pub(crate) events: Arc<EventCache>,
    pub(crate) notify: F,
}

impl<F: Fn(&str) + Send + Sync> WatchSink<LeanEvent> for EventSink<F> {
    fn begin(&self) -> u64 {
        0
    }

    fn apply(&self, event: LeanEvent, listed_since: Option<u64>) {
        if let Some(about) = self.events.insert_event(event).filter(|_| listed_since.is_none()) {
            (self.notify)(&about);
        }
    }

    fn delete(&self, event: LeanEvent) {
        self.events.remove_event(&event);
    }

    fn synced(&self, _: u64) {}

    fn lost(&self, _: String) {
        // Events of the past stay true.
    }
}
