//! Metrics of machines: slots by state, and the durations of the waiting of guests, of reviews and of passes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_core::time::TimeSpan;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::types::Usage;

/// The metrics of the machines part.
#[derive(Debug, Clone)]
pub struct MachineMetrics {
    slots: Family<Slots, Gauge>,
    /// The labels of the present series of slots, so that stale series can be removed.
    counted: Arc<Mutex<BTreeSet<Slots>>>,
    hand_over: Histogram,
    reviews: Family<Reviewed, Histogram>,
    passes: Histogram,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Slots {
    group: String,
    machine_type: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reviewed {
    review: &'static str,
    allowed: &'static str,
}

/// A kind of review.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReviewKind {
    Inject,
    Update,
    Machine,
}

impl MachineMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            slots: Family::default(),
            counted: Arc::default(),
            hand_over: Histogram::new(exponential_buckets(0.01, 2.0, 18)),
            reviews: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0001, 2.0, 14))),
            passes: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
        };
        let help = "Slots of machine types";
        registry.register("muster_machine_slots", help, metrics.slots.clone());
        let help = "Time from the creation of a guest until it got a slot";
        registry.register_with_unit(
            "muster_machine_hand_over",
            help,
            Unit::Seconds,
            metrics.hand_over.clone(),
        );
        let help = "Duration of reviews of guests and Machines";
        registry.register_with_unit("muster_machine_review", help, Unit::Seconds, metrics.reviews.clone());
        let help = "Duration of passes over machine groups";
        registry.register_with_unit("muster_machine_pass", help, Unit::Seconds, metrics.passes.clone());
        metrics
    }

    /// Sets the counts of a group's slots, and removes the series of types that are not given.
    pub(crate) fn count<'t>(&self, group: &str, types: impl IntoIterator<Item = (&'t str, Usage)>) {
        let mut now = BTreeSet::new();
        for (machine_type, Usage { maximum, reserved, used, waiting }) in types {
            let states = [("maximum", maximum), ("reserved", reserved), ("used", used), ("waiting", waiting)];
            for (state, slots) in states {
                let labels = Slots { group: group.to_owned(), machine_type: machine_type.to_owned(), state };
                self.slots.get_or_create(&labels).set(i64::from(slots));
                now.insert(labels);
            }
        }
        let mut counted = self.counted.lock();
        for labels in counted.extract_if(.., |labels| labels.group == group && !now.contains(labels)) {
            self.slots.remove(&labels);
        }
        counted.append(&mut now);
    }

    /// Removes all series of slots, because another replica reports them.
    pub(crate) fn forget(&self) {
        self.slots.clear();
        self.counted.lock().clear();
    }

    pub(crate) fn handed_over(&self, waited: TimeSpan) {
        self.hand_over.observe(Duration::from(waited).as_secs_f64());
    }

    pub(crate) fn passed(&self, took: Duration) {
        self.passes.observe(took.as_secs_f64());
    }

    pub(crate) fn reviewed(&self, review: ReviewKind, allowed: bool, took: Duration) {
        let review = match review {
            ReviewKind::Inject => "inject",
            ReviewKind::Update => "update",
            ReviewKind::Machine => "machine",
        };
        let labels = Reviewed { review, allowed: if allowed { "true" } else { "false" } };
        self.reviews.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
