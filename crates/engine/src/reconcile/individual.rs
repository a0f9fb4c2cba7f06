//! Bringing the members of a cluster to where they should be: observe, plan, record, act, and again.

pub(crate) mod abort;
pub(crate) mod observe;
pub(crate) mod obstacles;
pub(crate) mod plan;
pub(crate) mod results;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::StreamExt as _;
use muster_core::action::ActionKind;
use muster_core::change::{Change, Delete, NewMember, Recovery};
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole, NodeStatus, Seen};
use muster_core::time::{Span, Timestamp};

use crate::intent::naming;
use crate::intent::placements;
use crate::ports::provider::{Call, Observed, ProviderError};
use crate::reconcile::individual::plan::{Goal, Memory, Plan, Verdict};
use crate::run::{ActionRun, Stop, succeeded, summarize};

use crate::reconcile::individual::obstacles::Obstacles;

/// Results that are taken in at once: as many as are there, without starving the rest.
const RESULTS_AT_ONCE: usize = 1024;

/// How often the world is looked at while nothing tells of a change: only a safety net.
const LOOK_AGAIN: Span = Span::from_secs(5);

/// Looks that fail before the action makes room for others until its next try.
const BLIND_LOOKS: u32 = 4;

/// What the members of a cluster should become.
#[derive(Debug, Clone, Default)]
pub(crate) struct Aim {
    /// Members that shall go.
    pub(crate) leaving: HashSet<NodeId>,
    /// Members are added and started; otherwise they only go, or are looked at.
    pub(crate) start: bool,
    /// The cluster's row carries a changed intent, written with the first step.
    pub(crate) new_intent: bool,
    /// Only this member is worked on; what else is missing stays so.
    pub(crate) only: Option<NodeId>,
    /// The size is left as it is: nobody is added.
    pub(crate) keep_size: bool,
    /// Members that are made anew, by what they were in the world.
    pub(crate) again: HashMap<NodeId, String>,
    /// When it has to be reached, if that is before the timeout of the action.
    pub(crate) deadline: Option<Timestamp>,
}

/// What is kept between two looks at the world.
#[derive(Default)]
pub(crate) struct Progress {
    memory: Memory,
    tries: HashMap<NodeId, u32>,
    stops: HashMap<NodeId, u32>,
    blind: u32,
}

impl ActionRun {
    /// Works until the aim is reached. `Stop::Failed` names everything that stands in the way.
    pub(crate) async fn reach(&mut self, aim: &Aim) -> Result<(), Stop> {
        self.control.deadline = aim.deadline;
        let reached = self.reach_in_time(aim).await;
        self.control.deadline = None;
        reached
    }

    async fn reach_in_time(&mut self, aim: &Aim) -> Result<(), Stop> {
        let mut progress = Progress::default();
        progress.memory.given_up.clone_from(&self.children.given_up);
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
                    return Err(Stop::Failed(summarize(reasons)));
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
        self.observed_version = self.world.version();
        let look = self.look(aim.only);
        let mut seen = match self.call_provider(look).await? {
            Ok(seen) => seen,
            Err(error) => {
                self.wait_blindly(progress, &error).await?;
                return Ok(None);
            }
        };
        progress.blind = 0;
        self.forget_starts_that_did_not_happen(&seen);
        let mut plan = self.plan(aim, &seen, &progress.memory);
        let mut added = Vec::new();
        if plan.add_head || !plan.add.is_empty() {
            added = self.add_members(&plan);
            seen.nodes.extend(added.iter().map(|id| (*id, Seen::Absent)));
            plan = self.plan(aim, &seen, &progress.memory);
        }
        self.subject.cluster.observed.endpoints = seen.endpoints;
        Ok(Some((plan, added)))
    }

    fn plan(&self, aim: &Aim, seen: &Observed, memory: &Memory) -> Plan {
        let goal = Goal {
            cluster: &self.subject.cluster,
            leaving: &aim.leaving,
            workers_outlive_head: self.subject.capabilities.workers_outlive_head,
            start: aim.start,
            only: aim.only,
            keep_size: aim.keep_size,
            again: &aim.again,
        };
        plan::plan(goal, &self.subject.nodes, seen, memory, self.now())
    }

    fn add_members(&mut self, plan: &Plan) -> Vec<NodeId> {
        let now = self.now();
        let head = plan.add_head.then(|| naming::head(&self.subject.cluster, now));
        let mut nodes: Vec<_> = head.into_iter().collect();
        let mut places = placements::unused(&self.data);
        for (group, count) in &plan.add {
            for _ in 0..*count {
                let index = self.subject.cluster.next_index;
                self.subject.cluster.next_index = index.saturating_add(1);
                let worker = naming::worker(&self.subject.cluster, group, index, now);
                nodes.push(placements::put(worker, places.next()));
            }
        }
        let ids = nodes.iter().map(|node| node.id).collect();
        self.subject.add_nodes(nodes);
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
            self.subject.cluster.incarnation += 1;
        }
        let intent = intent || lost_head.is_some();
        let mut children = Vec::new();
        for id in &plan.start {
            if self.needs_child(*id) {
                let change = if added.contains(id) {
                    Change::CreateNode(NewMember::default())
                } else {
                    Change::RecoverNode(Recovery::default())
                };
                children.push(self.child(&change, *id));
            }
            let incarnation = self.subject.cluster.incarnation;
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
            if self.needs_child(*id) {
                let change = if aim.leaving.contains(id) {
                    Change::DeleteNode(Delete::default())
                } else {
                    Change::RecoverNode(Recovery::default())
                };
                children.push(self.child(&change, *id));
            }
            // What is stopped to be started anew is not lost, and nobody who looks is to take it for that.
            let leaves = aim.leaving.contains(id);
            if let Some(node) = self.node_mut(*id) {
                node.status = if leaves { NodeStatus::Deleting } else { NodeStatus::Recovering };
                node.updated_at = Some(now);
            }
        }
        // New rows are inserted as they are now; nothing about them is behind.
        self.journal.dirty.retain(|id| !added.contains(id));
        self.forget(plan);
        let came: Vec<NodeId> =
            self.subject.nodes.iter().map(|node| node.id).filter(|id| added.contains(id)).collect();
        if self.action.kind != ActionKind::ClusterCreate {
            self.record_added(&came);
        }
        let mut record = self.pending();
        record.new_nodes =
            self.subject.nodes.iter().filter(|node| added.contains(&node.id)).cloned().collect();
        record.children = children;
        record.applied = true;
        // What policies chose is kept with the plan: whoever takes over does not ask them again.
        record.data = self.data.stored();
        if intent || !added.is_empty() {
            record.cluster = self.row();
        }
        self.record(record).await
    }

    /// Records who was added: policies look at it once the action has ended.
    pub(crate) fn record_added(&mut self, added: &[NodeId]) {
        if !added.is_empty() {
            self.data.creation().nodes.extend(added);
        }
    }

    /// The head, if it worked before and is about to be started again without having been asked to stop.
    fn lost_head(&self, plan: &Plan) -> Option<NodeId> {
        let present = self.subject.cluster.incarnation;
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
        self.journal.gone.extend(&plan.gone);
        self.remove_nodes(&plan.gone.iter().copied().collect());
    }

    /// Starts and stops at once, takes results in as they come, and writes them now and then.
    async fn act(&mut self, plan: &Plan, progress: &mut Progress) -> Result<(), Stop> {
        let provider = std::sync::Arc::clone(&self.provider);
        let (cluster, fence) = (self.subject.cluster.clone(), self.action.fence);
        let (stops, starts) = (self.subject.by_profile(&plan.stop), self.subject.by_profile(&plan.start));
        let call = |profile| Call { cluster: &cluster, profile, fence };
        let stops = stops.iter().map(|(profile, nodes)| provider.stop_nodes(call(profile), nodes.clone()));
        let starts = starts.iter().map(|(profile, nodes)| provider.start_nodes(call(profile), nodes.clone()));
        let mut results = futures::stream::select_all(stops.chain(starts)).ready_chunks(RESULTS_AT_ONCE);
        let mut flush = tokio::time::interval(self.context.config.flush_period.into());
        flush.reset();
        let mut starting: HashSet<NodeId> = plan.start.iter().copied().collect();
        let mut obstacles = Obstacles::default();
        loop {
            tokio::select! {
                biased;
                told = self.interrupted_or_child_cancelled() => {
                    told?;
                    // The others are taken up again by the next plan, without those that are left out.
                    self.leave_starts_unconfirmed(starting);
                    return Ok(());
                }
                some = results.next() => match some {
                    Some(some) => for result in some {
                        starting.remove(&result.node);
                        self.take_in(result, progress);
                    },
                    None => return Ok(()),
                },
                _ = flush.tick() => self.flush_with_obstacles(&starting, &mut obstacles).await?,
            }
        }
    }

    /// Waits until the world tells of a change, a retry is due, or nothing was heard for a while.
    async fn wait_for_world(&self, until: Option<Timestamp>) -> Result<(), Stop> {
        let left = until.map_or(LOOK_AGAIN, |until| until.since(self.now()).min(LOOK_AGAIN));
        let wait = async {
            tokio::select! {
                told = self.interrupted_or_child_cancelled() => told,
                () = self.world.changed_since(self.observed_version) => Ok(()),
                () = tokio::time::sleep(Duration::from(left)) => Ok(()),
            }
        };
        self.yield_slot_while(wait).await
    }

    /// The provider cannot tell how things are: nothing is done until it can.
    async fn wait_blindly(&self, progress: &mut Progress, error: &ProviderError) -> Result<(), Stop> {
        progress.blind += 1;
        tell_blindness(error, progress.blind);
        if progress.blind > BLIND_LOOKS {
            return Err(Stop::Requeue(error.message.clone()));
        }
        let until = self.now().after(self.context.config.retry_delay(progress.blind));
        self.wait_for_world(Some(until)).await
    }
}

/// Says that nobody can tell how things are; quietly if that is only because it has just begun to be looked at.
pub(crate) fn tell_blindness(error: &ProviderError, tries: u32) {
    if error.is_not_yet() {
        tracing::debug!(%error, tries, "cannot observe yet");
    } else {
        tracing::warn!(%error, tries, "cannot observe");
    }
}
