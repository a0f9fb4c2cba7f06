//! The nodes of the world, and injected faults. Pure: the state follows from the calls.

use std::collections::HashMap;

use muster_core::action::Fence;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::Observation;

use super::wire::{Control, FalseObservation, Outcome, Verb, WorldAnswer, WorldCall};

/// The whole state.
#[derive(Default)]
pub(super) struct WorldState {
    running: HashMap<NodeId, WorldNode>,
    exited: HashMap<NodeId, String>,
    highest: HashMap<ClusterId, Fence>,
    hold: Option<(Verb, u32)>,
    slow: HashMap<Verb, u64>,
    failures: Vec<(Verb, u32, bool)>,
    dying: u32,
    lie: Option<FalseObservation>,
    made: u64,
}

struct WorldNode {
    cluster: ClusterId,
    physical_id: String,
}

impl WorldState {
    /// Records the fence of a call, and returns the higher fence that has overtaken the call, if any.
    pub(super) fn overtaken_by(&mut self, call: &WorldCall) -> Option<Fence> {
        let highest = self.highest.entry(call.cluster).or_default();
        let before = std::mem::replace(highest, call.fence.max(*highest));
        (call.fence < before).then_some(before)
    }

    /// Returns true if a call of this verb has to wait.
    pub(super) fn holds(&mut self, verb: Verb) -> bool {
        match &mut self.hold {
            Some((held, 0)) => *held == verb,
            Some((held, more)) if *held == verb => {
                *more -= 1;
                false
            }
            _ => false,
        }
    }

    /// The duration of a call of this verb in milliseconds.
    pub(super) fn pace(&self, verb: Verb) -> u64 {
        self.slow.get(&verb).copied().unwrap_or(0)
    }

    /// Returns true if the node of a call has ended by itself.
    pub(super) fn has_died(&self, call: &WorldCall) -> bool {
        call.node.as_ref().is_some_and(|(node, _)| self.exited.contains_key(node))
    }

    /// Executes a call, unless its engine was overtaken or a fault was injected.
    pub(super) fn execute(&mut self, call: &WorldCall) -> (Outcome, WorldAnswer) {
        if let Some(by) = self.overtaken_by(call) {
            return (Outcome::Refused, WorldAnswer::Overtaken { given: call.fence, by });
        }
        if let Some(transient) = self.fails(call.verb) {
            let message = "a fault was injected".to_owned();
            let answer = WorldAnswer::Refused { transient, reason: "OrderedToFail".to_owned(), message };
            return (Outcome::Failed, answer);
        }
        match (call.verb, &call.node) {
            (Verb::Start, Some((node, _))) => self.start(*node, call.cluster),
            (Verb::Stop, Some((node, _))) => {
                self.exited.remove(node);
                let removed = self.running.remove(node).is_some();
                (if removed { Outcome::Removed } else { Outcome::Absent }, WorldAnswer::Done(None))
            }
            (Verb::Delete, _) => {
                self.running.retain(|_, running| running.cluster != call.cluster);
                (Outcome::Done, WorldAnswer::Done(None))
            }
            _ => (Outcome::Done, WorldAnswer::Done(None)),
        }
    }

    fn start(&mut self, node: NodeId, cluster: ClusterId) -> (Outcome, WorldAnswer) {
        if let Some(running) = self.running.get(&node) {
            return (Outcome::There, WorldAnswer::Done(Some(running.physical_id.clone())));
        }
        self.made += 1;
        let physical_id = format!("world-{}", self.made);
        self.exited.remove(&node);
        if self.dying > 0 {
            self.dying -= 1;
            self.exited.insert(node, "it ended right after its start".to_owned());
        } else {
            self.running.insert(node, WorldNode { cluster, physical_id: physical_id.clone() });
        }
        (Outcome::Made, WorldAnswer::Done(Some(physical_id)))
    }

    /// Counts a call, and returns its injected failure, if any: true if the failure is transient.
    fn fails(&mut self, verb: Verb) -> Option<bool> {
        for (_, calls, _) in self.failures.iter_mut().filter(|(failing, ..)| *failing == verb) {
            *calls -= 1;
        }
        let at = self.failures.iter().position(|(failing, calls, _)| *failing == verb && *calls == 0)?;
        Some(self.failures.remove(at).2)
    }

    /// Applies a fault, and returns the cluster that it changes.
    pub(super) fn obey(&mut self, control: &Control) -> Option<ClusterId> {
        match control {
            Control::Hold(verb, after) => self.hold = Some((*verb, *after)),
            Control::Release | Control::Drop => self.hold = None,
            Control::Slow(verb, millis) => drop(self.slow.insert(*verb, *millis)),
            Control::FailAt { verb, call, transient } => {
                self.failures.push((*verb, (*call).max(1), *transient));
            }
            Control::DieAfterStart(count) => self.dying = *count,
            Control::Lie(lie) => self.lie = *lie,
            Control::Lose(node) => {
                let running = self.running.remove(node)?;
                self.exited.insert(*node, "killed by signal 9".to_owned());
                return Some(running.cluster);
            }
        }
        None
    }

    /// Updates the cluster of nodes, which join and leave clusters without a call: an observation names the new
    /// cluster.
    pub(super) fn belong(&mut self, cluster: ClusterId, nodes: &[NodeId]) {
        for node in nodes {
            if let Some(running) = self.running.get_mut(node) {
                running.cluster = cluster;
            }
        }
    }

    /// The observations of nodes, true or false.
    pub(super) fn observe(&self, nodes: &[NodeId]) -> WorldAnswer {
        let reason = "a false state was injected".to_owned();
        if self.lie == Some(FalseObservation::Blind) {
            return WorldAnswer::Refused { transient: true, reason: "Blind".to_owned(), message: reason };
        }
        let seen = |node: &NodeId| match (self.lie, self.running.get(node), self.exited.get(node)) {
            (Some(FalseObservation::Unknown), ..) => Observation::Unknown { reason: reason.clone() },
            (Some(FalseObservation::Absent), ..) | (_, None, None) => Observation::Absent,
            (_, Some(running), _) => Observation::Running { physical_id: running.physical_id.clone() },
            (_, None, Some(reason)) => Observation::Exited { reason: reason.clone() },
        };
        WorldAnswer::Observation(nodes.iter().map(|node| (*node, seen(node))).collect())
    }

    /// The running nodes of a cluster.
    pub(super) fn running(&self, cluster: ClusterId) -> HashMap<NodeId, String> {
        let own = self.running.iter().filter(|(_, running)| running.cluster == cluster);
        own.map(|(node, running)| (*node, running.physical_id.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
