//! Observation of nodes.

use std::collections::{BTreeMap, HashMap};

use muster_core::node::{Node, NodeRole, Observation};
use muster_engine::ports::provider::{ClusterTarget, Observed, ProviderError};

use super::exit_reason::with_log;
use super::head::HeadRecord;
use super::node_record::NodeRecord;
use super::{ProcessHost, on_disk, paths};
use crate::shim::{NodeFolder, NodeProcessState};

impl ProcessHost {
    /// Observes nodes without changing them, and starts to watch the running ones for their end.
    pub(super) fn observe_nodes(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<Observed, ProviderError> {
        self.lost_workers.track_cluster(target);
        let mut observations = HashMap::with_capacity(nodes.len());
        for node in nodes {
            let folder = self.node_folder(target, node.id);
            let found = self
                .shims
                .inspect(&folder)
                .map_err(|error| on_disk("a node's folder cannot be read", &error))?;
            if let NodeProcessState::Running(running) = &found {
                self.exit_watcher.watch(running);
            }
            let has_leftover =
                matches!(found, NodeProcessState::NeverStarted) && self.has_leftover_folder(target, node.id);
            let observation = if has_leftover { stopped() } else { self.observation(node, &folder, found) };
            observations.insert(node.id, observation);
        }
        let head = nodes.iter().find(|node| node.role == NodeRole::Head);
        let up =
            head.is_some_and(|head| matches!(observations.get(&head.id), Some(Observation::Running { .. })));
        let endpoints: BTreeMap<String, String> = HeadRecord::read(&self.paths, target.cluster.id)
            .filter(|_| up)
            .map(|head| head.endpoints().into())
            .unwrap_or_default();
        let versions = paths::read_json(&self.paths.versions_file(target.cluster.id)).filter(|_| up);
        Ok(Observed { nodes: observations, endpoints, versions, ..Observed::default() })
    }
}

/// Returns the observation of a stopped plain process whose files remain; they are removed when the node is deleted.
fn stopped() -> Observation {
    Observation::Exited { reason: "it was stopped".to_owned() }
}

impl ProcessHost {
    fn observation(&self, node: &Node, folder: &NodeFolder, found: NodeProcessState) -> Observation {
        match found {
            NodeProcessState::Running(running) => {
                let pid = running.process().map(|process| process.pid.to_string());
                let Some((record, physical_id)) =
                    NodeRecord::read(folder).filter(|record| record.was_ready).zip(pid.clone())
                else {
                    return Observation::Starting { physical_id: pid };
                };
                match self.lost_workers.loss_reason(node, &record) {
                    Some(why) => Observation::Exited { reason: why.to_owned() },
                    None => Observation::Running { physical_id },
                }
            }
            NodeProcessState::Ended(end) => {
                Observation::Exited { reason: with_log(folder, &format!("it {end}")) }
            }
            NodeProcessState::Lost => {
                let message = "it was killed with its supervisor; its exit status is unknown (shim lost)";
                Observation::Exited { reason: with_log(folder, message) }
            }
            NodeProcessState::AnotherBoot(_) => Observation::HostRestarted,
            NodeProcessState::NeverStarted => Observation::Absent,
        }
    }
}
