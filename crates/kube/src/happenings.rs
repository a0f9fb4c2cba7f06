//! Events of Kubernetes, by the object that they are about.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_engine::ports::provider::ExternalEvent;
use parking_lot::Mutex;

use crate::facts::LeanEvent;
use crate::follow::Takes;

/// The most that are kept of one object: its last ones.
const OF_ONE: usize = 20;

/// What was heard of objects, for as long as Kubernetes keeps it.
#[derive(Default)]
pub(crate) struct Happenings {
    by_object: Mutex<HashMap<String, BTreeMap<u64, ExternalEvent>>>,
}

impl Happenings {
    /// Takes an event in, and tells which object it is about.
    pub(crate) fn take(&self, event: LeanEvent) -> Option<String> {
        let about = event.about().to_owned();
        let heard = event.heard()?;
        let mut state = self.by_object.lock();
        let own = state.entry(about.clone()).or_default();
        // An event that happened again is the same one, later.
        own.retain(|_, known| known.id != heard.id);
        own.insert(heard.version, heard);
        while own.len() > OF_ONE {
            own.pop_first();
        }
        Some(about)
    }

    /// Kubernetes has forgotten an event.
    pub(crate) fn forget(&self, event: &LeanEvent) {
        let mut state = self.by_object.lock();
        if let Some(own) = state.get_mut(event.about()) {
            own.retain(|_, known| known.id.to_string() != event.uid());
            if own.is_empty() {
                state.remove(event.about());
            }
        }
    }

    /// What was heard of an object, the oldest first.
    pub(crate) fn of(&self, uid: &str) -> Vec<ExternalEvent> {
        self.by_object.lock().get(uid).map(|own| own.values().cloned().collect()).unwrap_or_default()
    }
}

/// Events as a watch tells of them; `tell` hears of whom they are about.
pub(crate) struct Heralds<F> {
    pub(crate) happenings: Arc<Happenings>,
    pub(crate) tell: F,
}

impl<F: Fn(&str) + Send + Sync> Takes<LeanEvent> for Heralds<F> {
    fn begin(&self) -> u64 {
        0
    }

    fn take(&self, event: LeanEvent, listed_since: Option<u64>) {
        if let Some(about) = self.happenings.take(event).filter(|_| listed_since.is_none()) {
            (self.tell)(&about);
        }
    }

    fn drop(&self, event: LeanEvent) {
        self.happenings.forget(&event);
    }

    fn complete(&self, _: u64) {}

    fn lost(&self, _: String) {
        // What was heard stays true.
    }
}
