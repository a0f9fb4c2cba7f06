//! The nodes of the world, and injected faults. Pure: the state follows from the calls.

use std::collections::HashMap;

use muster_core::action::Fence;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::node::Observation;

use super::wire::{Answer, Call, Control, Lie, Outcome, Verb};

/// The whole state.
#[derive(Default)]
pub(super) struct State {
    running: HashMap<NodeId, Running>,
    exited: HashMap<NodeId, String>,
    highest: HashMap<ClusterId, Fence>,
    hold: Option<(Verb, u32)>,
    slow: HashMap<Verb, u64>,
    failures: Vec<(Verb, u32, bool)>,
    dying: u32,
    lie: Option<Lie>,
    made: u64,
}

struct Running {
    cluster: ClusterId,
    physical_id: String,
}

impl State {
    /// The fence that has overtaken a call; without one, it overtakes all before it.
    pub(super) fn overtaken_by(&mut self, call: &Call) -> Option<Fence> {
        let highest = self.highest.entry(call.cluster).or_default();
        let before = std::mem::replace(highest, call.fence.max(*highest));
        (call.fence < before).then_some(before)
    }

    /// Whether a call of this verb has to wait.
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

    /// Whether the node of a call has ended by itself.
    pub(super) fn has_died(&self, call: &Call) -> bool {
        call.node.as_ref().is_some_and(|(node, _)| self.exited.contains_key(node))
    }

    /// Executes a call, unless its engine was overtaken or a fault was injected.
    pub(super) fn execute(&mut self, call: &Call) -> (Outcome, Answer) {
        if let Some(by) = self.overtaken_by(call) {
            return (Outcome::Refused, Answer::Overtaken { given: call.fence, by });
        }
        if let Some(transient) = self.fails(call.verb) {
            let message = "a fault was injected".to_owned();
            let answer = Answer::Refused { transient, reason: "OrderedToFail".to_owned(), message };
            return (Outcome::Failed, answer);
        }
        match (call.verb, &call.node) {
            (Verb::Start, Some((node, _))) => self.start(*node, call.cluster),
            (Verb::Stop, Some((node, _))) => {
                self.exited.remove(node);
                let removed = self.running.remove(node).is_some();
                (if removed { Outcome::Removed } else { Outcome::Absent }, Answer::Done(None))
            }
            (Verb::Delete, _) => {
                self.running.retain(|_, running| running.cluster != call.cluster);
                (Outcome::Done, Answer::Done(None))
            }
            _ => (Outcome::Done, Answer::Done(None)),
        }
    }

    fn start(&mut self, node: NodeId, cluster: ClusterId) -> (Outcome, Answer) {
        if let Some(running) = self.running.get(&node) {
            return (Outcome::There, Answer::Done(Some(running.physical_id.clone())));
        }
        self.made += 1;
        let physical_id = format!("world-{}", self.made);
        self.exited.remove(&node);
        if self.dying > 0 {
            self.dying -= 1;
            self.exited.insert(node, "it ended right after its start".to_owned());
        } else {
            self.running.insert(node, Running { cluster, physical_id: physical_id.clone() });
        }
        (Outcome::Made, Answer::Done(Some(physical_id)))
    }

    /// The injected failure of this call, and whether it is transient.
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

    /// Nodes change their cluster without a call: an observation contains the new one.
    pub(super) fn belong(&mut self, cluster: ClusterId, nodes: &[NodeId]) {
        for node in nodes {
            if let Some(running) = self.running.get_mut(node) {
                running.cluster = cluster;
            }
        }
    }

    /// The observations of nodes, true or false.
    pub(super) fn look(&self, nodes: &[NodeId]) -> Answer {
        let reason = "a false state was injected".to_owned();
        if self.lie == Some(Lie::Blind) {
            return Answer::Refused { transient: true, reason: "Blind".to_owned(), message: reason };
        }
        let seen = |node: &NodeId| match (self.lie, self.running.get(node), self.exited.get(node)) {
            (Some(Lie::Unknown), ..) => Observation::Unknown { reason: reason.clone() },
            (Some(Lie::Absent), ..) | (_, None, None) => Observation::Absent,
            (_, Some(running), _) => Observation::Running { physical_id: running.physical_id.clone() },
            (_, None, Some(reason)) => Observation::Exited { reason: reason.clone() },
        };
        Answer::Observation(nodes.iter().map(|node| (*node, seen(node))).collect())
    }

    /// The running nodes of a cluster.
    pub(super) fn running(&self, cluster: ClusterId) -> HashMap<NodeId, String> {
        let own = self.running.iter().filter(|(_, running)| running.cluster == cluster);
        own.map(|(node, running)| (*node, running.physical_id.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
