//! Usage: the clusters, nodes, cpu, memory and accelerators that were requested, each multiplied by its duration.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::capacity::{Demand, demands};
use crate::cluster::Cluster;
use crate::profile::Profile;
use crate::quantity::{Cpu, Memory};
use crate::recipe::{ClusterRecipe, GivenRecipe};
use crate::string_enum::string_enum;
use crate::time::{TimeSpan, Timestamp};

string_enum! {
    /// The key by which usage is summed.
    UsageGrouping, "grouping of usage" {
        /// The owners of clusters.
        User = "user",
        /// Projects.
        Project = "project",
        /// Frameworks; the profile type of clusters without one.
        Framework = "framework",
    }
}

/// The amounts that the nodes of a cluster request together. An amount that a shape leaves to the provider counts as
/// zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestedAmounts {
    /// The number of nodes, including the head.
    pub nodes: u64,
    /// Cpu.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
    /// Whole accelerators.
    pub gpu: u64,
}

/// The keys in an event's data for the amounts that are requested from the event on, and until the event.
const AFTER: &str = "requested";
const BEFORE: &str = "requested_before";

/// The text by which a database finds the events whose stored data contains amounts.
pub const STORED_AFTER: &str = "\"requested\":{";

impl RequestedAmounts {
    /// The amounts that a cluster requests. Without a profile, they are derived from the row, which has the groups
    /// and the given fields of the head: a profile that was created for one cluster is deleted with it.
    pub fn of_cluster(cluster: &Cluster, profile: Option<&Profile>) -> Self {
        let recipe = match profile {
            Some(profile) => ClusterRecipe::of_cluster(cluster, profile).unwrap_or_default(),
            None => {
                let none = ClusterRecipe::default();
                GivenRecipe::stored_in(&cluster.spec).over(&none.clone(), none)
            }
        };
        Self::of_demands(&demands(cluster, &recipe))
    }

    /// The sum of these demands.
    pub fn of_demands(demands: &[Demand]) -> Self {
        let sum = |amount: &dyn Fn(&Demand) -> Option<u64>| {
            demands.iter().fold(0_u64, |sum, demand| {
                sum.saturating_add(amount(demand).unwrap_or(0).saturating_mul(demand.count.into()))
            })
        };
        Self {
            nodes: sum(&|_| Some(1)),
            cpu: Cpu::from_millis(sum(&|demand| demand.shape.cpu.map(Cpu::millis))),
            memory: Memory::from_bytes(sum(&|demand| demand.shape.memory.map(Memory::bytes))),
            gpu: sum(&|demand| demand.shape.gpu.map(u64::from)),
        }
    }
}

/// A record of the amounts that a cluster requests from a point in time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmountsRecord {
    /// The time of the change.
    pub at: Timestamp,
    /// The amounts that were requested until then, if they are known.
    pub before: Option<RequestedAmounts>,
    /// The amounts that are requested from then on.
    pub after: RequestedAmounts,
}

impl AmountsRecord {
    /// Writes amounts into the data of an event.
    pub fn write(data: &mut Map<String, Value>, before: Option<RequestedAmounts>, after: RequestedAmounts) {
        let amounts = [(BEFORE, before), (AFTER, Some(after))];
        for (key, amounts) in amounts {
            if let Some(Ok(value)) = amounts.map(serde_json::to_value) {
                data.insert(key.to_owned(), value);
            }
        }
    }

    /// The amounts in the data of an event, if there are any.
    pub fn read(at: Timestamp, data: &Map<String, Value>) -> Option<Self> {
        let amounts = |key| RequestedAmounts::deserialize(data.get(key)?).ok();
        Some(Self { at, before: amounts(BEFORE), after: amounts(AFTER)? })
    }
}

/// A span of time, its end not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The beginning.
    pub since: Timestamp,
    /// The end.
    pub until: Timestamp,
}

/// The recorded history of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterHistory {
    /// The time when the cluster was stored, at which its creation began.
    pub created: Timestamp,
    /// The time when the cluster was deleted, if it was.
    pub deleted: Option<Timestamp>,
    /// The amounts that its row requests, which count if there are no records.
    pub present: RequestedAmounts,
    /// The records of changed amounts, the oldest first.
    pub records: Vec<AmountsRecord>,
}

/// Amounts multiplied by time, in microseconds: exact sums, whatever the number of clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageSum {
    /// The number of clusters that existed at any time of the window.
    pub clusters: u64,
    cluster_time: u128,
    node_time: u128,
    cpu_time: u128,
    memory_time: u128,
    gpu_time: u128,
}

impl UsageSum {
    /// The usage of a cluster within a window; none if the cluster did not exist then.
    pub fn of(history: &ClusterHistory, window: Window) -> Option<Self> {
        let begin = history.created.max(window.since);
        let end = history.deleted.map_or(window.until, |deleted| deleted.min(window.until));
        if end <= begin && history.deleted.is_some_and(|deleted| deleted < window.since)
            || begin >= window.until
        {
            return None;
        }
        let mut usage = Self { clusters: 1, ..Self::default() };
        let first = history.records.first().map(|record| record.before.unwrap_or(record.after));
        let (mut from, mut amounts) = (begin, first.unwrap_or(history.present));
        for record in &history.records {
            let to = record.at.clamp(from, end.max(from));
            usage.add_span(amounts, to.since(from));
            (from, amounts) = (to, record.after);
        }
        usage.add_span(amounts, end.since(from));
        Some(usage)
    }

    fn add_span(&mut self, amounts: RequestedAmounts, span: TimeSpan) {
        let micros = u128::try_from(span.micros()).unwrap_or(0);
        let times = |amount: u64| u128::from(amount).saturating_mul(micros);
        self.add(&Self {
            clusters: 0,
            cluster_time: micros,
            node_time: times(amounts.nodes),
            cpu_time: times(amounts.cpu.millis()),
            memory_time: times(amounts.memory.bytes()),
            gpu_time: times(amounts.gpu),
        });
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Self) {
        let Self { clusters, cluster_time, node_time, cpu_time, memory_time, gpu_time } = other;
        self.clusters = self.clusters.saturating_add(*clusters);
        let sums = [
            (&mut self.cluster_time, cluster_time),
            (&mut self.node_time, node_time),
            (&mut self.cpu_time, cpu_time),
            (&mut self.memory_time, memory_time),
            (&mut self.gpu_time, gpu_time),
        ];
        for (sum, other) in sums {
            *sum = sum.saturating_add(*other);
        }
    }

    /// The hours that clusters existed.
    pub fn cluster_hours(&self) -> f64 {
        hours(self.cluster_time, 1)
    }

    /// The hours of nodes, including heads.
    pub fn node_hours(&self) -> f64 {
        hours(self.node_time, 1)
    }

    /// The hours of cores.
    pub fn core_hours(&self) -> f64 {
        hours(self.cpu_time, 1_000)
    }

    /// The hours of GiB of memory.
    pub fn memory_gib_hours(&self) -> f64 {
        hours(self.memory_time, 1 << 30)
    }

    /// The hours of accelerators.
    pub fn gpu_hours(&self) -> f64 {
        hours(self.gpu_time, 1)
    }
}

const MICROS_PER_HOUR: u128 = 3_600_000_000;

/// Converts amounts times microseconds to units times hours, rounded down to a ten-thousandth, which is less than a
/// second.
fn hours(time: u128, unit: u128) -> f64 {
    const PARTS: u32 = 10_000;
    let parts = time.saturating_mul(PARTS.into()) / (MICROS_PER_HOUR * unit);
    // A `u64` holds two hundred thousand years of a thousand million cores.
    let parts = u64::try_from(parts).unwrap_or(u64::MAX);
    to_float(parts) / f64::from(PARTS)
}

#[expect(clippy::cast_precision_loss, reason = "what is lost is below the digits that anyone reads")]
const fn to_float(whole: u64) -> f64 {
    whole as f64
}

#[cfg(test)]
mod tests;
