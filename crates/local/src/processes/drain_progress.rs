//! The workers that are being drained, and their remaining tasks.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_engine::ports::provider::ClusterTarget;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::ProcessHost;

/// Interval of requests to the head for the remaining tasks.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Tracks the workers that are being drained.
#[derive(Default)]
pub(super) struct DrainProgress {
    nodes: Mutex<HashMap<NodeId, DrainState>>,
}

/// The state of one drain.
#[derive(Debug, Clone, Copy)]
struct DrainState {
    /// The time at which the worker is stopped even if tasks remain.
    until: Instant,
    /// Remaining tasks, in the unit of the framework; 0 also means unknown.
    tasks: u64,
}

impl DrainProgress {
    fn track(&self, nodes: &[Node], within: Duration) -> DrainGuard<'_> {
        let until = Instant::now() + within;
        let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
        self.nodes.lock().extend(ids.iter().map(|id| (*id, DrainState { until, tasks: 0 })));
        DrainGuard { tracker: self, ids }
    }

    fn set_tasks(&self, load: &HashMap<NodeId, u64>, guard: &DrainGuard<'_>) {
        let mut nodes = self.nodes.lock();
        for id in &guard.ids {
            if let Some(drain) = nodes.get_mut(id) {
                drain.tasks = load.get(id).copied().unwrap_or_default();
            }
        }
    }

    /// Returns why the stop of these nodes is still waiting.
    pub(super) fn reasons(&self, of: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        let (nodes, now) = (self.nodes.lock(), Instant::now());
        let draining = nodes.iter().filter(|(id, _)| of.contains(id));
        draining
            .map(|(id, drain)| (*id, describe_drain(drain.tasks, drain.until.saturating_duration_since(now))))
            .collect()
    }
}

/// Stops tracking its nodes when this value is dropped, also when a drain is interrupted.
struct DrainGuard<'d> {
    tracker: &'d DrainProgress,
    ids: Vec<NodeId>,
}

impl Drop for DrainGuard<'_> {
    fn drop(&mut self) {
        let mut nodes = self.tracker.nodes.lock();
        nodes.retain(|id, _| !self.ids.contains(id));
    }
}

impl ProcessHost {
    /// Awaits a drain, and refreshes the remaining tasks of its workers meanwhile.
    pub(super) async fn watch_drain<T>(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
        within: Duration,
        drain: impl Future<Output = T>,
    ) -> T {
        let guard = self.drain_progress.track(nodes, within);
        let watch = async {
            loop {
                // Keeps the last known tasks if the head does not answer.
                if let Ok(load) = self.load(target, nodes).await {
                    self.drain_progress.set_tasks(&load, &guard);
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        tokio::select! {
            biased;
            drained = drain => drained,
            never = watch => never,
        }
    }
}

fn describe_drain(tasks: u64, left: Duration) -> String {
    let what = match tasks {
        0 => "draining".to_owned(),
        1 => "draining: waiting for 1 task".to_owned(),
        tasks => format!("draining: waiting for {tasks} tasks"),
    };
    format!("{what} ({} left)", format_rounded(left))
}

/// Formats a time rounded up, so that the reason changes rarely.
fn format_rounded(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..60 => format!("{} s", (seconds / 10 + 1) * 10),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 299, "draining (5 min left)")]
    #[case(1, 240, "draining: waiting for 1 task (4 min left)")]
    #[case(3, 61, "draining: waiting for 3 tasks (2 min left)")]
    #[case(1, 42, "draining: waiting for 1 task (50 s left)")]
    #[case(1, 0, "draining: waiting for 1 task (10 s left)")]
    fn a_reason_names_the_tasks_and_the_time(#[case] tasks: u64, #[case] left: u64, #[case] expected: &str) {
        assert_eq!(describe_drain(tasks, Duration::from_secs(left)), expected);
    }

    #[test]
    fn an_interrupted_drain_is_no_longer_tracked() {
        let (drains, node) = (DrainProgress::default(), muster_core::sample::node(1));
        let of = HashSet::from([node.id]);
        let guard = drains.track(std::slice::from_ref(&node), Duration::from_mins(5));
        drains.set_tasks(&HashMap::from([(node.id, 2)]), &guard);
        assert_eq!(
            drains.reasons(&of).get(&node.id).map(String::as_str),
            Some("draining: waiting for 2 tasks (5 min left)")
        );
        assert_eq!(drains.reasons(&HashSet::new()), HashMap::new());
        drop(guard);
        assert_eq!(drains.reasons(&of), HashMap::new());
    }
}
