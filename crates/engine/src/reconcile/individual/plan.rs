//! Decides the next steps for the members of a cluster. Pure: the same inputs give the same plan.

use std::collections::{BTreeMap, HashMap, HashSet};

use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole, Observation};
use muster_core::time::Timestamp;

use crate::ports::provider::Observed;

/// The failures and stops of earlier steps of the action, by node.
#[derive(Debug, Clone, Default)]
pub(crate) struct RetryState {
    /// Nodes that failed permanently, with the reason: they are not retried in this action.
    pub(crate) given_up: HashMap<NodeId, String>,
    /// Nodes that failed transiently, with the time before which they are not retried.
    pub(crate) not_before: HashMap<NodeId, Timestamp>,
    /// Nodes whose stop was acknowledged, with the time before which they are not stopped again.
    pub(crate) not_stopped_before: HashMap<NodeId, Timestamp>,
}

/// The goal for the members of a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    /// The cluster as it should be.
    pub(crate) cluster: &'a Cluster,
    /// Members to remove.
    pub(crate) leaving: &'a HashSet<NodeId>,
    /// True if workers rejoin a new head by themselves.
    pub(crate) workers_outlive_head: bool,
    /// True if missing members are started; false where the cluster is deleted or only observed.
    pub(crate) start: bool,
    /// The only member that is handled, if there is one.
    pub(crate) only: Option<NodeId>,
    /// True if no member is added.
    pub(crate) keep_size: bool,
    /// Members to recreate, with their old physical ids.
    pub(crate) recreate: &'a HashMap<NodeId, String>,
}

/// The next steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// True if a head is to be added.
    pub(crate) add_head: bool,
    /// Numbers of workers to add, by group.
    pub(crate) add: BTreeMap<String, u32>,
    /// Members to start.
    pub(crate) start: Vec<NodeId>,
    /// Members to stop.
    pub(crate) stop: Vec<NodeId>,
    /// Members that are gone and whose rows are removed.
    pub(crate) gone: Vec<NodeId>,
    /// Members that run, with their physical ids.
    pub(crate) up: Vec<(NodeId, String)>,
    /// Members that do not run, with the reason, as far as it is known.
    pub(crate) down: Vec<(NodeId, String)>,
    /// The decision that these steps lead to.
    pub(crate) verdict: MemberVerdict,
}

/// The decision of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum MemberVerdict {
    /// Add, start or stop members.
    #[default]
    Act,
    /// Nothing can be done now: observe again when something changes, or at this time.
    Wait(Option<Timestamp>),
    /// The goal is reached.
    Reached,
    /// The goal cannot be reached, for these reasons.
    Unreachable(Vec<String>),
}

/// Decides the next steps for the members of a cluster.
pub(crate) fn plan(
    input: Input<'_>,
    nodes: &[Node],
    observed: &Observed,
    retry_state: &RetryState,
    now: Timestamp,
) -> Plan {
    let mut planner = Planner {
        input,
        retry_state,
        now,
        plan: Plan::default(),
        retries: Vec::new(),
        hopeful: false,
        failures: Vec::new(),
    };
    if input.only.is_none() {
        planner.head(nodes, observed);
    }
    let head_is_up = planner.head_is_up(nodes, observed);
    let chosen = |node: &&Node| input.only.is_none_or(|only| node.id == only);
    for node in nodes.iter().filter(chosen) {
        match node.role {
            NodeRole::Worker => planner.member(node, &observed.of(node.id), head_is_up),
            // The head was planned before the workers.
            NodeRole::Head => {}
            NodeRole::Unknown(role) => planner.leave_alone(node, role.as_str()),
        }
    }
    planner.count(nodes);
    planner.conclude()
}

struct Planner<'a> {
    input: Input<'a>,
    retry_state: &'a RetryState,
    now: Timestamp,
    plan: Plan,
    /// The times of pending retries.
    retries: Vec<Timestamp>,
    /// True if the state of a member may still change without a step.
    hopeful: bool,
    /// The reasons of members that this action cannot bring to the goal.
    failures: Vec<String>,
}

impl Planner<'_> {
    fn head(&mut self, nodes: &[Node], observed: &Observed) {
        match nodes.iter().find(|node| node.role == NodeRole::Head) {
            Some(head) => self.member(head, &observed.of(head.id), true),
            None if self.input.cluster.has_head && self.input.start => self.plan.add_head = true,
            None => {}
        }
    }

    /// Returns true if the head runs, or if the cluster has none: workers are started only then.
    fn head_is_up(&self, nodes: &[Node], observed: &Observed) -> bool {
        let head = nodes.iter().find(|node| node.role == NodeRole::Head);
        let up = |node: &Node| {
            matches!(observed.of(node.id), Observation::Running { .. }) && !self.is_outdated(node)
        };
        !self.input.cluster.has_head || head.is_some_and(up)
    }

    /// Leaves a node of an unknown role to the newer version that knows the role. An action on just this node fails.
    fn leave_alone(&mut self, node: &Node, role: &str) {
        if self.input.only == Some(node.id) {
            self.failures.push(format!("{}: this version does not know the role '{role}'", node.name));
        }
    }

    fn is_outdated(&self, node: &Node) -> bool {
        let follows = node.role == NodeRole::Head || !self.input.workers_outlive_head;
        follows && node.incarnation < self.input.cluster.incarnation
    }

    fn member(&mut self, node: &Node, observed: &Observation, head_is_up: bool) {
        let leaving = self.input.leaving.contains(&node.id);
        match observed {
            Observation::Absent if leaving => self.plan.gone.push(node.id),
            // An exited node is stopped too, which removes its leftovers.
            _ if leaving => self.stop(node),
            Observation::Running { .. } if self.input.start && self.is_outdated(node) => self.stop(node),
            Observation::Running { physical_id }
                if self.input.recreate.get(&node.id) == Some(physical_id) =>
            {
                self.stop(node);
            }
            Observation::Running { physical_id } => self.plan.up.push((node.id, physical_id.clone())),
            // The worker waits for a head that does not run: the head is handled first.
            Observation::Starting { .. }
                if self.input.start && !head_is_up && node.role == NodeRole::Worker => {}
            Observation::Starting { .. } if self.input.start && self.is_outdated(node) => self.stop(node),
            Observation::Starting { .. } if self.input.start => self.start(node),
            // Unknown never deletes or recovers anything.
            Observation::Starting { .. } | Observation::Unknown { .. } => self.hopeful = true,
            Observation::Absent | Observation::Exited { .. } | Observation::HostRestarted => {
                self.bring_back(node, observed.loss().unwrap_or_default(), head_is_up);
            }
        }
    }

    fn stop(&mut self, node: &Node) {
        if let Some(reason) = self.retry_state.given_up.get(&node.id) {
            self.failures.push(format!("{}: {reason}", node.name));
        } else if self.may_stop(node) && self.may_try(node) {
            self.plan.stop.push(node.id);
        }
    }

    fn may_stop(&mut self, node: &Node) -> bool {
        let not_before =
            self.retry_state.not_stopped_before.get(&node.id).filter(|moment| **moment > self.now);
        self.retries.extend(not_before);
        not_before.is_none()
    }

    fn bring_back(&mut self, node: &Node, why: &str, head_is_up: bool) {
        self.plan.down.push((node.id, why.to_owned()));
        if !self.input.start {
            return;
        }
        // Workers are not started without a head; the head is handled first.
        if !head_is_up && node.role == NodeRole::Worker {
            if self.input.only.is_some() {
                self.failures.push(format!("{}: the head is not running", node.name));
            }
            return;
        }
        // Restarts on request or for a new head do not count as crashes.
        let may_start = node.may_start(self.now) || self.is_outdated(node);
        if self.retry_state.given_up.contains_key(&node.id) || may_start {
            self.start(node);
        } else {
            let minutes = node.next_start(self.now).since(self.now).secs() / 60 + 1;
            self.failures.push(format!(
                "{}: started {} times in 10 minutes, the limit; the next start is possible in {minutes} min: {why}",
                node.name,
                node.starts.len()
            ));
        }
    }

    fn start(&mut self, node: &Node) {
        if let Some(reason) = self.retry_state.given_up.get(&node.id) {
            self.failures.push(format!("{}: {reason}", node.name));
        } else if self.may_try(node) {
            self.plan.start.push(node.id);
        }
    }

    fn may_try(&mut self, node: &Node) -> bool {
        match self.retry_state.not_before.get(&node.id) {
            Some(moment) if *moment > self.now => {
                self.retries.push(*moment);
                false
            }
            _ => true,
        }
    }

    /// Plans the missing members. A failed member is not missing: its failure is the result of the action.
    fn count(&mut self, nodes: &[Node]) {
        if !self.input.start || self.input.keep_size || self.input.only.is_some() {
            return;
        }
        for group in &self.input.cluster.groups {
            let stays = |node: &&Node| {
                node.group.as_deref() == Some(&group.name)
                    && node.role == NodeRole::Worker
                    && !self.input.leaving.contains(&node.id)
            };
            let present = u32::try_from(nodes.iter().filter(stays).count()).unwrap_or(u32::MAX);
            if present < group.desired {
                self.plan.add.insert(group.name.clone(), group.desired - present);
            }
        }
    }

    fn conclude(mut self) -> Plan {
        let plan = &self.plan;
        let acts = plan.add_head || !(plan.add.is_empty() && plan.start.is_empty() && plan.stop.is_empty());
        self.plan.verdict = if acts {
            MemberVerdict::Act
        } else if self.hopeful || !self.retries.is_empty() {
            MemberVerdict::Wait(self.retries.iter().min().copied())
        } else if self.failures.is_empty() {
            MemberVerdict::Reached
        } else {
            MemberVerdict::Unreachable(std::mem::take(&mut self.failures))
        };
        self.plan
    }
}

#[cfg(test)]
mod tests;
