//! The engine's metrics.

use std::time::Duration;

use muster_core::action::{ActionKind, ActionStatus};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The metrics of an engine. Handles are cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    ended: Family<EndedLabels, Counter>,
    taken_over: Counter,
    running: Gauge,
    calls: Family<CallLabels, Histogram>,
    renewals: Family<RenewalLabels, Counter>,
    duties: Family<DutyLabels, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndedLabels {
    action: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    provider: String,
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RenewalLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DutyLabels {
    duty: String,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            ended: Family::default(),
            taken_over: Counter::default(),
            running: Gauge::default(),
            // From a millisecond to four minutes: nodes may take long to start.
            calls: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 10))),
            renewals: Family::default(),
            duties: Family::default(),
        }
    }
}

impl Metrics {
    /// Registers the metrics in a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "muster_actions_ended",
            "Actions that ended, by kind and status",
            self.ended.clone(),
        );
        let help = "Actions taken over from another engine";
        registry.register("muster_actions_taken_over", help, self.taken_over.clone());
        registry.register("muster_actions_running", "Actions that run in this engine", self.running.clone());
        let help = "Duration of provider calls, by verb and outcome (done, failed, left before the end)";
        registry.register_with_unit("muster_provider_call_duration", help, Unit::Seconds, self.calls.clone());
        let help = "Renewals of this engine's lease, by outcome (done, failed, lost)";
        registry.register("muster_lease_renewals", help, self.renewals.clone());
        let help =
            "1 if this engine had the duty, such as the observer of an instance, at its last check, else 0";
        registry.register("muster_duty_held", help, self.duties.clone());
    }

    pub(crate) fn action_started(&self, taken_over: bool) {
        self.running.inc();
        if taken_over {
            self.taken_over.inc();
        }
    }

    pub(crate) fn action_released(&self) {
        self.running.dec();
    }

    pub(crate) fn action_ended(&self, kind: ActionKind, status: ActionStatus) {
        self.ended.get_or_create(&EndedLabels { action: kind.as_str(), status: status.as_str() }).inc();
    }

    pub(crate) fn provider_called(
        &self,
        provider: &str,
        verb: &'static str,
        outcome: &'static str,
        took: Duration,
    ) {
        let call = CallLabels { provider: provider.to_owned(), verb, outcome };
        self.calls.get_or_create(&call).observe(took.as_secs_f64());
    }

    pub(crate) fn renewal(&self, outcome: &'static str) {
        self.renewals.get_or_create(&RenewalLabels { outcome }).inc();
    }

    pub(crate) fn duty(&self, name: &str, held: bool) {
        self.duties.get_or_create(&DutyLabels { duty: name.to_owned() }).set(i64::from(held));
    }

    /// Removes all duties: an engine that loses its lease loses them too.
    pub(crate) fn clear_duties(&self) {
        self.duties.clear();
    }
}
