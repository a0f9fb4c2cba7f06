//! Bringing the members of a cluster to where they should be: observe, plan, record, act, and again.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt as _;
use muster_core::action::{ActionKind, ActionStatus};
use muster_core::event::Level;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole, NodeStatus, Seen};
use muster_core::time::{Span, Timestamp};
use muster_store::commands::End;
use serde_json::{Map, Value, json};

use crate::events;
use crate::naming;
use crate::plan::{self, Goal, Memory, Plan, Verdict};
use crate::provider::{Call, NodeResult, Observed, ProviderError};
use crate::work::{Stop, Work, left_out};

/// Results that are taken in at once: as many as are there, without starving the rest.
const RESULTS_AT_ONCE: usize = 1024;

/// How often the world is looked at while nothing tells of a change: only a safety net.
pub(crate) const LOOK_AGAIN: Span = Span::from_secs(5);

/// Looks that fail before the action makes room for others until its next try.
const BLIND_LOOKS: u32 = 4;

/// How often a node is stopped that the provider says is stopped, and that is there all the same: about a minute.
const STOPS: u32 = 8;

/// How many nodes are named, with what became of them, by an action that fails.
const TOLD: usize = 3;

/// What the members of a cluster should become.
#[derive(Debug, Clone, Default)]
pub(crate) struct Aim {
    /// Members that shall go.
    pub(crate) leaving: HashSet<NodeId>,
    /// Members are added and started; otherwise they only go, or are looked at.
    pub(crate) start: bool,
    /// The cluster's row carries a changed intent, written with the first step.
    pub(crate) new_intent: bool,
    /// Why members go, as their children say it.
    pub(crate) leave: Option<ActionKind>,
}

/// What is kept between two looks at the world.
#[derive(Default)]
struct Progress {
    memory: Memory,
    tries: std::collections::HashMap<NodeId, u32>,
    stops: std::collections::HashMap<NodeId, u32>,
    blind: u32,
}

impl Work {
    /// Works until the aim is reached. `Stop::Failed` names everything that stands in the way.
    pub(crate) async fn reach(&mut self, aim: &Aim) -> Result<(), Stop> {
        let mut progress = Progress::default();
        progress.memory.given_up.clone_from(&self.given_up);
        let mut intent = aim.new_intent;
        loop {
            self.check()?;
            self.leave_out_cancelled(&mut progress);
            let Some((plan, added)) = self.next_plan(aim, &mut progress).await? else { continue };
            self.take_note(&plan);
            if self.give_up_stops(&plan, &mut progress) {
                continue;
            }
            match &plan.verdict {
                Verdict::Act => {
                    self.record_plan(aim, &plan, &added, std::mem::take(&mut intent)).await?;
                    self.act(&plan, &mut progress).await?;
                }
                Verdict::Wait(until) => {
                    self.flush().await?;
                    self.wait_for_world(*until).await?;
                }
                Verdict::Reached => {
                    self.forget(&plan);
                    return Ok(());
                }
                Verdict::Unreachable(reasons) => {
                    self.forget(&plan);
                    return Err(Stop::Failed(in_one(reasons)));
                }
            }
        }
    }

    /// Looks and plans. Members that are missing are added in memory first, so that one step starts them too.
    async fn next_plan(
        &mut self,
        aim: &Aim,
        progress: &mut Progress,
    ) -> Result<Option<(Plan, Vec<NodeId>)>, Stop> {
        self.looked = self.world.version();
        let look = self.provider.observe(self.call(), &self.nodes);
        let mut seen = match self.call_provider(look).await? {
            Ok(seen) => seen,
            Err(error) => {
                self.wait_blindly(progress, &error).await?;
                return Ok(None);
            }
        };
        progress.blind = 0;
        self.forgive_starts(&seen);
        let mut plan = self.plan(aim, &seen, &progress.memory);
        let mut added = Vec::new();
        if plan.add_head || !plan.add.is_empty() {
            added = self.add_members(&plan);
            seen.nodes.extend(added.iter().map(|id| (*id, Seen::Absent)));
            plan = self.plan(aim, &seen, &progress.memory);
        }
        self.cluster.observed.endpoints = seen.endpoints;
        Ok(Some((plan, added)))
    }

    fn plan(&self, aim: &Aim, seen: &Observed, memory: &Memory) -> Plan {
        let goal = Goal {
            cluster: &self.cluster,
            leaving: &aim.leaving,
            workers_outlive_head: self.capabilities.workers_outlive_head,
            start: aim.start,
        };
        plan::plan(goal, &self.nodes, seen, memory, self.now())
    }

    fn add_members(&mut self, plan: &Plan) -> Vec<NodeId> {
        let now = self.now();
        let head = plan.add_head.then(|| naming::head(&self.cluster, now));
        let mut nodes: Vec<_> = head.into_iter().collect();
        for (group, count) in &plan.add {
            for _ in 0..*count {
                let index = self.cluster.next_index;
                self.cluster.next_index = index.saturating_add(1);
                nodes.push(naming::worker(&self.cluster, group, index, now));
            }
        }
        let ids = nodes.iter().map(|node| node.id).collect();
        self.add_nodes(nodes);
        ids
    }

    /// Writes into memory what was seen.
    fn take_note(&mut self, plan: &Plan) {
        let now = self.now();
        for (id, physical_id) in &plan.up {
            let id = *id;
            let known = self.node(id).is_some_and(|node| {
                node.status == NodeStatus::Active && node.physical_id.as_ref() == Some(physical_id)
            });
            if known || self.is_changing(id) {
                continue;
            }
            self.started(id, physical_id.clone(), now);
        }
        for (id, why) in &plan.down {
            let settled =
                |status| matches!(status, NodeStatus::Error | NodeStatus::Creating | NodeStatus::Recovering);
            if self.node(*id).is_some_and(|node| !settled(node.status) && node.status != NodeStatus::Init)
                && let Some(node) = self.node_mut(*id)
            {
                node.status = NodeStatus::Error;
                node.status_reason.clone_from(why);
                node.updated_at = Some(now);
            }
        }
    }

    /// A node that works but is being changed by this action is not settled by being seen.
    fn is_changing(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| matches!(node.status, NodeStatus::Deleting | NodeStatus::Operating))
    }

    /// The commit before the step: what is about to be started and stopped, and whose it is.
    async fn record_plan(
        &mut self,
        aim: &Aim,
        plan: &Plan,
        added: &[NodeId],
        intent: bool,
    ) -> Result<(), Stop> {
        let now = self.now();
        let added: HashSet<NodeId> = added.iter().copied().collect();
        let lost_head = self.lost_head(plan);
        if lost_head.is_some() {
            // A new head: workers that cannot find it by themselves are of the old one from here on.
            self.cluster.incarnation += 1;
        }
        let intent = intent || lost_head.is_some();
        let mut children = Vec::new();
        for id in &plan.start {
            let kind = if added.contains(id) { ActionKind::NodeCreate } else { ActionKind::NodeRecover };
            if !self.children.contains_key(id) {
                children.push(self.child(kind, *id));
            }
            let incarnation = self.cluster.incarnation;
            if let Some(node) = self.node_mut(*id) {
                node.status =
                    if node.created_at.is_none() { NodeStatus::Creating } else { NodeStatus::Recovering };
                if node.incarnation < incarnation && lost_head != Some(*id) {
                    // It follows a new head, or is restarted on request: that is no crash of its own.
                    node.starts.clear();
                }
                node.incarnation = incarnation;
                node.note_start(now);
                node.updated_at = Some(now);
            }
        }
        for id in &plan.stop {
            if !self.children.contains_key(id) {
                let kind = aim.leave.unwrap_or(ActionKind::NodeDelete);
                children.push(self.child(kind, *id));
            }
            // What is stopped to be started anew is not lost, and nobody who looks is to take it for that.
            let leaves = aim.leaving.contains(id);
            if let Some(node) = self.node_mut(*id) {
                node.status = if leaves { NodeStatus::Deleting } else { NodeStatus::Recovering };
                node.updated_at = Some(now);
            }
        }
        // New rows are inserted as they are now; nothing about them is behind.
        self.dirty.retain(|id| !added.contains(id));
        self.forget(plan);
        self.note_added(&added);
        let mut record = self.pending();
        record.new_nodes = self.nodes.iter().filter(|node| added.contains(&node.id)).cloned().collect();
        record.children = children;
        record.applied = true;
        // What policies chose is kept with the plan: whoever takes over does not ask them again.
        record.data = self.kept();
        if intent || !added.is_empty() {
            record.cluster = Some(self.cluster.clone());
        }
        self.record(record).await
    }

    /// Who came is kept with the action: policies look at it once it has ended.
    fn note_added(&mut self, added: &HashSet<NodeId>) {
        if added.is_empty() || self.action.kind == ActionKind::ClusterCreate {
            return;
        }
        let mut creation = match self.data.remove("creation") {
            Some(Value::Object(creation)) => creation,
            _ => Map::new(),
        };
        let mut nodes: Vec<NodeId> = creation
            .remove("nodes")
            .and_then(|nodes| serde_json::from_value(nodes).ok())
            .unwrap_or_default();
        nodes.extend(self.nodes.iter().map(|node| node.id).filter(|id| added.contains(id)));
        creation.insert("nodes".to_owned(), json!(nodes));
        self.data.insert("creation".to_owned(), creation.into());
    }

    /// The head, if it worked before and is about to be started again without having been asked to stop.
    fn lost_head(&self, plan: &Plan) -> Option<NodeId> {
        let present = self.cluster.incarnation;
        let lost = |node: &Node| {
            node.role == NodeRole::Head && node.created_at.is_some() && node.incarnation == present
        };
        plan.start.iter().copied().find(|id| self.node(*id).is_some_and(lost))
    }

    /// Members that are gone: their children have done it, their rows go with the next commit.
    fn forget(&mut self, plan: &Plan) {
        if plan.gone.is_empty() {
            return;
        }
        for id in &plan.gone {
            self.end_child(*id, succeeded("Deletion succeeded"));
        }
        self.gone.extend(&plan.gone);
        self.remove_nodes(&plan.gone.iter().copied().collect());
    }

    /// Starts and stops at once, takes results in as they come, and writes them now and then.
    async fn act(&mut self, plan: &Plan, progress: &mut Progress) -> Result<(), Stop> {
        let provider = std::sync::Arc::clone(&self.provider);
        let (cluster, profile) = (self.cluster.clone(), self.profile.clone());
        let call = Call { cluster: &cluster, profile: &profile, fence: self.action.fence };
        let chosen = |work: &Self, ids: &[NodeId]| -> Vec<_> {
            ids.iter().filter_map(|id| work.node(*id).cloned()).collect()
        };
        let stops = provider.stop_nodes(call, chosen(self, &plan.stop));
        let starts = provider.start_nodes(call, chosen(self, &plan.start));
        let mut results = futures::stream::select(stops, starts).ready_chunks(RESULTS_AT_ONCE);
        let mut flush = tokio::time::interval(self.inner.config.flush_period.into());
        flush.reset();
        let mut starting: HashSet<NodeId> = plan.start.iter().copied().collect();
        loop {
            tokio::select! {
                biased;
                told = self.interrupted_or_told() => {
                    told?;
                    // The others are taken up again by the next plan, without those that are left out.
                    self.doubt_starts(starting);
                    return Ok(());
                }
                some = results.next() => match some {
                    Some(some) => for result in some {
                        starting.remove(&result.node);
                        self.take_in(result, progress);
                    },
                    None => return Ok(()),
                },
                _ = flush.tick() => self.flush().await?,
            }
        }
    }

    fn take_in(&mut self, NodeResult { node: id, result }: NodeResult, progress: &mut Progress) {
        let now = self.now();
        match result {
            Ok(Some(physical_id)) => {
                progress.stops.remove(&id);
                self.started(id, physical_id, now);
            }
            Ok(None) => {
                let stops = progress.stops.entry(id).or_default();
                *stops += 1;
                // Should it be there all the same, it is not stopped again at once.
                let again = now.after(self.inner.config.pause(*stops));
                progress.memory.not_stopped_before.insert(id, again);
                if let Some(node) = self.node_mut(id) {
                    node.physical_id = None;
                    node.updated_at = Some(now);
                }
            }
            Err(error) => self.failed(id, &error, progress, now),
        }
    }

    pub(crate) fn started(&mut self, id: NodeId, physical_id: String, now: Timestamp) {
        let reason = match self.node(id).and_then(|node| node.created_at) {
            None => "Creation succeeded",
            Some(_) => "Recovery succeeded",
        };
        if let Some(node) = self.node_mut(id) {
            node.status = NodeStatus::Active;
            reason.clone_into(&mut node.status_reason);
            node.physical_id = Some(physical_id);
            if node.created_at.is_none() {
                // The budget is for bringing back what worked once.
                node.starts.clear();
            }
            node.created_at = node.created_at.or(Some(now));
            node.updated_at = Some(now);
        }
        self.end_child(id, succeeded(reason));
    }

    fn failed(&mut self, id: NodeId, error: &ProviderError, progress: &mut Progress, now: Timestamp) {
        if error.transient {
            let tries = progress.tries.entry(id).or_default();
            *tries += 1;
            progress.memory.not_before.insert(id, now.after(self.inner.config.pause(*tries)));
        } else {
            progress.memory.given_up.insert(id, error.message.clone());
            self.end_child(id, End { status: ActionStatus::Failed, reason: error.message.clone() });
        }
        let (permanent, level) = (!error.transient, if error.transient { Level::Warn } else { Level::Error });
        if let Some(node) = self.node_mut(id) {
            if permanent {
                node.status = NodeStatus::Error;
            }
            node.status_reason.clone_from(&error.message);
            node.updated_at = Some(now);
            let node = node.clone();
            if permanent || error.is_death() {
                let (action, reason) = (Some(&self.action), &error.reason);
                let event = events::of_node(action, &node, level, reason, &error.message, now);
                self.events.push(event);
            }
        }
    }

    /// Nodes whose children were cancelled are left as they are; the action goes on with the others, and says so.
    fn leave_out_cancelled(&mut self, progress: &mut Progress) {
        let now = self.now();
        for (id, child) in self.cancelled_children() {
            let reason = left_out(child);
            self.end_child(
                id,
                End { status: ActionStatus::Cancelled, reason: "Action execution cancelled".to_owned() },
            );
            if let Some(node) = self.node_mut(id) {
                node.status = NodeStatus::Error;
                node.status_reason.clone_from(&reason);
                node.updated_at = Some(now);
            }
            progress.memory.given_up.insert(id, reason);
        }
    }

    /// Nodes that were stopped often enough, by the provider's word, and are there all the same: no more of that.
    fn give_up_stops(&mut self, plan: &Plan, progress: &mut Progress) -> bool {
        let now = self.now();
        let vain = |id: &&NodeId| progress.stops.get(id).is_some_and(|stops| *stops >= STOPS);
        let vain: Vec<NodeId> = plan.stop.iter().filter(vain).copied().collect();
        for id in &vain {
            let message = format!("it was stopped {STOPS} times, each time with success, and is still there");
            self.failed(*id, &ProviderError::permanent("StopIgnored", message), progress, now);
        }
        !vain.is_empty()
    }

    /// Waits until the world tells of a change, a retry is due, or nothing was heard for a while.
    async fn wait_for_world(&self, until: Option<Timestamp>) -> Result<(), Stop> {
        let left = until.map_or(LOOK_AGAIN, |until| until.since(self.now()).min(LOOK_AGAIN));
        tokio::select! {
            told = self.interrupted_or_told() => told,
            () = self.world.changed_since(self.looked) => Ok(()),
            () = tokio::time::sleep(Duration::from(left)) => Ok(()),
        }
    }

    /// The provider cannot tell how things are: nothing is done until it can.
    async fn wait_blindly(&self, progress: &mut Progress, error: &ProviderError) -> Result<(), Stop> {
        progress.blind += 1;
        tracing::warn!(%error, tries = progress.blind, "cannot observe");
        if progress.blind > BLIND_LOOKS {
            return Err(Stop::NotNow(error.message.clone()));
        }
        let until = self.now().after(self.inner.config.pause(progress.blind));
        self.wait_for_world(Some(until)).await
    }
}

/// The first few reasons: those of a thousand nodes are rarely a thousand different ones.
fn in_one(reasons: &[String]) -> String {
    let told = reasons.iter().take(TOLD).cloned().collect::<Vec<_>>().join("; ");
    match reasons.len().saturating_sub(TOLD) {
        0 => told,
        more => format!("{told}; and {more} more"),
    }
}

fn succeeded(reason: &str) -> End {
    End { status: ActionStatus::Succeeded, reason: reason.to_owned() }
}
