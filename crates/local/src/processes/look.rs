//! How nodes are.

use std::collections::{BTreeMap, HashMap};

use muster_core::node::{Node, NodeRole, Observation};
use muster_engine::ports::provider::{ClusterTarget, Observed, ProviderError};

use super::ending::with_log;
use super::head::Head;
use super::seat::Seat;
use super::{Inner, on_disk};
use crate::shim::{Found, NodeFolder};

impl Inner {
    /// Looks at all nodes; it changes nothing, and waits for the end of those that run.
    pub(super) fn look(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        self.census.include(target);
        let mut seen = HashMap::with_capacity(nodes.len());
        for node in nodes {
            let folder = self.folder(target, node.id);
            let found = self
                .shims
                .find(&folder)
                .map_err(|error| on_disk("a node's folder cannot be read", &error))?;
            if let Found::Running(running) = &found {
                self.exits.watch(running);
            }
            let left = matches!(found, Found::NeverStarted) && self.leaves(target, node.id);
            let state = if left { stopped() } else { self.state(node, &folder, found) };
            seen.insert(node.id, state);
        }
        let head = nodes.iter().find(|node| node.role == NodeRole::Head);
        let up = head.is_some_and(|head| matches!(seen.get(&head.id), Some(Observation::Running { .. })));
        let endpoints: BTreeMap<String, String> = Head::of(&self.places, target.cluster.id)
            .filter(|_| up)
            .map(|head| head.endpoints().into())
            .unwrap_or_default();
        Ok(Observed { nodes: seen, endpoints, ..Observed::default() })
    }
}

/// One that was stopped and has left something: that goes when the node does.
fn stopped() -> Observation {
    Observation::Exited { reason: "it was stopped".to_owned() }
}

impl Inner {
    fn state(&self, node: &Node, folder: &NodeFolder, found: Found) -> Observation {
        match found {
            Found::Running(running) => {
                let pid = running.process().map(|process| process.pid.to_string());
                let Some((seat, physical_id)) = Seat::of(folder).filter(|seat| seat.works).zip(pid.clone())
                else {
                    return Observation::Starting { physical_id: pid };
                };
                match self.census.loss(node, &seat) {
                    Some(why) => Observation::Exited { reason: why.to_owned() },
                    None => Observation::Running { physical_id },
                }
            }
            Found::Ended(end) => Observation::Exited { reason: with_log(folder, &format!("it {end}")) },
            Found::Lost => {
                let sentence = "it ended with its supervisor, how is unknown (shim lost)";
                Observation::Exited { reason: with_log(folder, sentence) }
            }
            Found::AnotherBoot(_) => Observation::HostRestarted,
            Found::NeverStarted => Observation::Absent,
        }
    }
}
