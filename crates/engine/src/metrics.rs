//! What the engine counts.

use muster_core::action::{ActionKind, ActionStatus};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counters of an engine. Handles are cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    ended: Family<Ended, Counter>,
    taken_over: Counter,
    running: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    action: &'static str,
    status: &'static str,
}

impl Metrics {
    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "muster_actions_ended",
            "Actions that ended, by kind and status",
            self.ended.clone(),
        );
        let help = "Actions that another engine had begun";
        registry.register("muster_actions_taken_over", help, self.taken_over.clone());
        registry.register("muster_actions_running", "Actions that run in this engine", self.running.clone());
    }

    pub(crate) fn begun(&self, taken_over: bool) {
        self.running.inc();
        if taken_over {
            self.taken_over.inc();
        }
    }

    pub(crate) fn left(&self) {
        self.running.dec();
    }

    pub(crate) fn ended(&self, kind: ActionKind, status: ActionStatus) {
        self.ended.get_or_create(&Ended { action: kind.as_str(), status: status.as_str() }).inc();
    }
}
