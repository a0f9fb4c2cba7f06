//! Assignment of accelerators to nodes.

use std::collections::HashMap;

use muster_core::node::Node;
use muster_engine::ports::provider::{FencedCall, ProviderError};

use super::launch::node_recipe;
use super::node_kind::NodeKind;
use super::node_record::NodeRecord;
use super::{ProcessHost, capacity, on_disk};
use crate::shim::{NodeFolder, NodeProcessState};

/// The variable with the accelerators that a program may use.
pub(super) const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

impl ProcessHost {
    /// Chooses the accelerators of a node that is about to start: as many as its shape has, those that the fewest nodes
    /// use. The caller holds the lock `choosing_devices`.
    pub(super) fn choose_devices(
        &self,
        call: FencedCall<'_>,
        node: &Node,
    ) -> Result<Vec<u32>, ProviderError> {
        if NodeKind::from_profile_type(&call.profile.kind).and_then(NodeKind::framework).is_none() {
            return Ok(Vec::new());
        }
        let wanted = node_recipe(call, node)?.shape().gpu.unwrap_or(0);
        if wanted == 0 {
            return Ok(Vec::new());
        }
        let total = capacity::of_machine(self.settings.gpus).gpu;
        let used = self
            .devices_in_use(node)
            .map_err(|error| on_disk("the folder of clusters cannot be read", &error))?;
        Ok(choose_least_used(wanted, total, &used))
    }

    /// Lists the accelerators of all other nodes that run or are about to start, once for each node.
    fn devices_in_use(&self, node: &Node) -> std::io::Result<Vec<u32>> {
        let mut used = Vec::new();
        for cluster in self.paths.clusters()? {
            for folder in NodeFolder::list(&cluster)? {
                let record = NodeRecord::read(&folder)
                    .filter(|record| !record.gpus.is_empty() && folder.node() != node.id);
                let Some(record) = record else { continue };
                if uses_devices(&record, self.shims.inspect(&folder).ok()) {
                    used.extend(record.gpus);
                }
            }
        }
        Ok(used)
    }
}

/// Returns true if a node runs, or is about to start, with the accelerators of its record. The devices are chosen before
/// the start, so the folder may still have the state of the run before. An unreadable state counts as a start.
fn uses_devices(record: &NodeRecord, state: Option<NodeProcessState>) -> bool {
    let is_starting = match state {
        Some(NodeProcessState::Running(_)) => return true,
        Some(NodeProcessState::Ended(end)) => end.at < record.prepared_at,
        Some(NodeProcessState::AnotherBoot(run)) => run.started_at < record.prepared_at,
        Some(NodeProcessState::Lost | NodeProcessState::NeverStarted) | None => true,
    };
    is_starting && !record.was_ready
}

/// Chooses the accelerators that are used least; of equals, the lowest numbers.
fn choose_least_used(wanted: u32, total: u32, used: &[u32]) -> Vec<u32> {
    let mut uses: HashMap<u32, usize> = HashMap::new();
    for device in used {
        *uses.entry(*device).or_default() += 1;
    }
    let mut devices: Vec<u32> = (0..total).collect();
    devices.sort_by_key(|device| uses.get(device).copied().unwrap_or_default());
    devices.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
    devices.sort_unstable();
    devices
}

#[cfg(test)]
mod tests {
    use muster_core::time::Timestamp;
    use rstest::rstest;

    use super::*;
    use crate::shim::{ExitCause, NodeExit, OomKills};

    #[rstest]
    #[case::that_was_ready(1, true, false)]
    #[case::that_was_never_ready(1, false, false)]
    #[case::that_is_about_to_start_again(3, false, true)]
    fn an_ended_node_uses_no_accelerators(
        #[case] prepared_at: i64,
        #[case] was_ready: bool,
        #[case] expected: bool,
    ) {
        let record = NodeRecord {
            name: "w-1".to_owned(),
            was_ready,
            draining: false,
            gpus: vec![0],
            prepared_at: Timestamp::from_micros(prepared_at),
        };
        let end = NodeExit {
            how: ExitCause::Exited { code: 1 },
            at: Timestamp::from_micros(2),
            stopped: None,
            oom_kills: OomKills::Same,
        };
        assert_eq!(uses_devices(&record, Some(NodeProcessState::Ended(end))), expected);
        assert_eq!(uses_devices(&record, Some(NodeProcessState::NeverStarted)), !was_ready);
    }

    #[rstest]
    #[case::the_first(1, 2, &[], &[0])]
    #[case::another(1, 2, &[0], &[1])]
    #[case::several(2, 4, &[0, 2], &[1, 3])]
    #[case::shared_where_there_are_too_few(1, 2, &[0, 1, 0], &[1])]
    #[case::no_more_than_there_are(3, 2, &[], &[0, 1])]
    fn a_node_gets_the_accelerators_that_the_fewest_others_use(
        #[case] wanted: u32,
        #[case] total: u32,
        #[case] used: &[u32],
        #[case] expected: &[u32],
    ) {
        assert_eq!(choose_least_used(wanted, total, used), expected);
    }
}
