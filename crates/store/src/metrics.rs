//! The metrics of the store.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::error::StoreError;

/// Counters of a store. Handles are cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(crate) commits: Counter,
    durations: Family<CommandLabels, Histogram>,
    errors: Family<FailureLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CommandLabels {
    command: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    command: &'static str,
    error: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            commits: Counter::default(),
            // From a quarter of a millisecond (a small read) to sixteen seconds, longer than any wait for a lock.
            durations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_25, 4.0, 9))),
            errors: Family::default(),
        }
    }
}

impl Metrics {
    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Commits of this process that wrote something";
        registry.register("muster_database_commits", help, self.commits.clone());
        let help = "Duration of commands, including the queue, by command (all reads: `read`)";
        let durations = self.durations.clone();
        registry.register_with_unit("muster_database_command_duration", help, Unit::Seconds, durations);
        let help = "Failed commands, by command and error";
        registry.register("muster_database_errors", help, self.errors.clone());
    }

    pub(crate) fn done<T>(&self, command: &'static str, took: Duration, result: &Result<T, StoreError>) {
        self.durations.get_or_create(&CommandLabels { command }).observe(took.as_secs_f64());
        if let Some(error) = result.as_ref().err().and_then(StoreError::fault) {
            self.errors.get_or_create(&FailureLabels { command, error }).inc();
        }
    }
}
