//! Individual membership: observes, plans, records and acts until the members match the goal.

pub(crate) mod abort;
pub(crate) mod observe;
pub(crate) mod obstacles;
pub(crate) mod plan;
pub(crate) mod results;

use futures::StreamExt as _;
use muster_core::action::ActionKind;
use muster_core::change::{Change, Delete, NewMember, Recovery};
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole, NodeStatus, Observation};
use muster_core::time::{TimeSpan, Timestamp};
use std::collections::{HashMap, HashSet};

use crate::intent::naming;
use crate::intent::placements;
use crate::ports::provider::{FencedCall, Observed, ProviderError};
use crate::reconcile::individual::plan::{Plan, RetryState};
use crate::reconcile::{Strategy, Verdict, drive};
use crate::run::{ActionRun, Stop, succeeded};

use crate::reconcile::individual::obstacles::Obstacles;

/// Results that are processed together: as many as are ready, without starving the rest.
const RESULTS_PER_BATCH: usize = 1024;

/// The goal for the members of a cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Goal {
    /// Members to remove.
    pub(crate) leaving: HashSet<NodeId>,
    /// Members are added and started; otherwise they are only removed or observed.
    pub(crate) start: bool,
    /// The cluster's row carries a changed intent, written with the first step.
    pub(crate) new_intent: bool,
    /// Only this member is handled; other missing members stay missing.
    pub(crate) only: Option<NodeId>,
    /// No member is added.
    pub(crate) keep_size: bool,
    /// Members to recreate, with their old physical ids.
    pub(crate) recreate: HashMap<NodeId, String>,
    /// The deadline, if it is before the timeout of the action.
    pub(crate) deadline: Option<Timestamp>,
}

/// Individual membership: Muster starts and stops each node.
pub(crate) struct Individual<'g> {
    goal: &'g Goal,
    retry_state: RetryState,
    /// Transient failures in a row, by node.
    failures: HashMap<NodeId, u32>,
    /// Acknowledged stops, by node.
    stops: HashMap<NodeId, u32>,
    /// The cluster's row carries a changed intent that no commit has written yet.
    new_intent: bool,
}

/// A step: what to start and stop, and which of these nodes are new.
pub(crate) struct Step {
    plan: Plan,
    added: Vec<NodeId>,
}

impl ActionRun {
    /// Brings the members of the cluster to a goal.
    pub(crate) async fn reconcile(&mut self, goal: &Goal) -> Result<(), Stop> {
        let retry_state = RetryState { given_up: self.children.given_up.clone(), ..RetryState::default() };
        let (failures, stops) = (HashMap::new(), HashMap::new());
        let mut strategy = Individual { goal, retry_state, failures, stops, new_intent: goal.new_intent };
        self.control.deadline = goal.deadline;
        let reached = drive(self, &mut strategy).await;
        self.control.deadline = None;
        reached
    }
}

impl Strategy for Individual<'_> {
    type Plan = Step;

    // Providers report changes by themselves: only a safety net.
    const POLL_INTERVAL: TimeSpan = TimeSpan::from_secs(5);

    async fn observe(&mut self, run: &mut ActionRun) -> Result<Result<Observed, ProviderError>, Stop> {
        run.leave_out_cancelled(self);
        run.call_provider(run.observe(self.goal.only)).await
    }

    fn plan(&mut self, run: &mut ActionRun, mut observed: Observed) -> Result<Verdict<Step>, Stop> {
        run.forget_starts_that_did_not_happen(&observed);
        let mut plan = run.plan(self.goal, &observed, &self.retry_state);
        let mut added = Vec::new();
        if plan.add_head || !plan.add.is_empty() {
            // Added in memory first, so that the same step starts them too.
            added = run.add_members(&plan);
            observed.nodes.extend(added.iter().map(|id| (*id, Observation::Absent)));
            plan = run.plan(self.goal, &observed, &self.retry_state);
        }
        run.record_observed(&plan);
        if run.give_up_stops(&plan, self) {
            plan = run.plan(self.goal, &observed, &self.retry_state);
        }
        run.subject.cluster.observed.endpoints = observed.endpoints;
        Ok(match &plan.verdict {
            plan::Verdict::Act => Verdict::Apply(Step { plan, added }),
            plan::Verdict::Wait(until) => Verdict::Wait(*until, Vec::new()),
            plan::Verdict::Reached => {
                run.remove_gone(&plan);
                Verdict::Reached
            }
            plan::Verdict::Unreachable(reasons) => {
                let reasons = reasons.clone();
                run.remove_gone(&plan);
                Verdict::Unreachable(reasons)
            }
        })
    }

    async fn apply(&mut self, run: &mut ActionRun, Step { plan, added }: Step) -> Result<(), Stop> {
        let intent = std::mem::take(&mut self.new_intent);
        run.record_plan(self.goal, &plan, &added, intent).await?;
        run.start_and_stop(&plan, self).await
    }

    async fn commit_before_wait(
        &mut self,
        run: &mut ActionRun,
        _: Vec<String>,
    ) -> Result<Option<Timestamp>, Stop> {
        run.flush().await?;
        Ok(None)
    }

    async fn finish(&mut self, _: &mut ActionRun) -> Result<(), Stop> {
        Ok(())
    }
}

impl ActionRun {
    fn plan(&self, goal: &Goal, observed: &Observed, retry_state: &RetryState) -> Plan {
        let input = plan::Input {
            cluster: &self.subject.cluster,
            leaving: &goal.leaving,
            workers_outlive_head: self.subject.capabilities.workers_outlive_head,
            start: goal.start,
            only: goal.only,
            keep_size: goal.keep_size,
            recreate: &goal.recreate,
        };
        plan::plan(input, &self.subject.nodes, observed, retry_state, self.now())
    }

    fn add_members(&mut self, plan: &Plan) -> Vec<NodeId> {
        let now = self.now();
        let head = plan.add_head.then(|| naming::head(&self.subject.cluster, now));
        let mut nodes: Vec<_> = head.into_iter().collect();
        let mut places = placements::unused(&self.data);
        for (group, count) in &plan.add {
            let workers = naming::new_workers(&mut self.subject.cluster, group, *count, now);
            nodes.extend(workers.into_iter().map(|worker| placements::assign(worker, places.next())));
        }
        let ids = nodes.iter().map(|node| node.id).collect();
        self.subject.add_nodes(nodes);
        ids
    }

    /// Applies the observation in memory.
    fn record_observed(&mut self, plan: &Plan) {
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

    /// Whether this action is changing the node: then observing it running does not complete it.
    fn is_changing(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| matches!(node.status, NodeStatus::Deleting | NodeStatus::Operating))
    }

    /// The commit before the step: the nodes that are about to be started and stopped, and their child actions.
    async fn record_plan(
        &mut self,
        goal: &Goal,
        plan: &Plan,
        added: &[NodeId],
        intent: bool,
    ) -> Result<(), Stop> {
        let now = self.now();
        let added: HashSet<NodeId> = added.iter().copied().collect();
        let lost_head = self.lost_head(plan);
        if lost_head.is_some() {
            // A new head: workers that cannot rejoin it belong to the old one from here on.
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
                    // It follows a new head, or is restarted on request: that does not count as a crash.
                    node.starts.clear();
                }
                node.incarnation = incarnation;
                node.record_start(now);
                node.updated_at = Some(now);
            }
        }
        for id in &plan.stop {
            if self.needs_child(*id) {
                let change = if goal.leaving.contains(id) {
                    Change::DeleteNode(Delete::default())
                } else {
                    Change::RecoverNode(Recovery::default())
                };
                children.push(self.child(&change, *id));
            }
            // A node that is stopped to be recreated must not look lost to observers.
            let leaves = goal.leaving.contains(id);
            if let Some(node) = self.node_mut(*id) {
                node.status = if leaves { NodeStatus::Deleting } else { NodeStatus::Recovering };
                node.updated_at = Some(now);
            }
        }
        // New rows are inserted whole, so they are not dirty.
        self.journal.dirty.retain(|id| !added.contains(id));
        self.remove_gone(plan);
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
        // Decisions of policies are committed with the plan: an engine that takes over does not run them again.
        record.data = self.data.stored();
        if intent || !added.is_empty() {
            record.cluster = self.row();
        }
        self.record(record).await
    }

    /// Records which nodes were added: policies read it once the action has ended.
    pub(crate) fn record_added(&mut self, added: &[NodeId]) {
        if !added.is_empty() {
            self.data.creation().nodes.extend(added);
        }
    }

    /// The head, if it worked before and is about to be restarted after a crash.
    fn lost_head(&self, plan: &Plan) -> Option<NodeId> {
        let present = self.subject.cluster.incarnation;
        let lost = |node: &Node| {
            node.role == NodeRole::Head && node.created_at.is_some() && node.incarnation == present
        };
        plan.start.iter().copied().find(|id| self.node(*id).is_some_and(lost))
    }

    /// Ends the child actions of members that are gone, and removes their rows with the next commit.
    fn remove_gone(&mut self, plan: &Plan) {
        if plan.gone.is_empty() {
            return;
        }
        for id in &plan.gone {
            self.end_child(*id, succeeded("Deletion succeeded"));
        }
        self.journal.gone.extend(&plan.gone);
        self.remove_nodes(&plan.gone.iter().copied().collect());
    }

    /// Starts and stops nodes concurrently, processes results as they come, and flushes them periodically.
    async fn start_and_stop(&mut self, plan: &Plan, strategy: &mut Individual<'_>) -> Result<(), Stop> {
        let provider = self.node_provider()?;
        let (cluster, fence) = (self.subject.cluster.clone(), self.action.fence);
        let (stops, starts) = (self.subject.by_profile(&plan.stop), self.subject.by_profile(&plan.start));
        let call = |profile| FencedCall { cluster: &cluster, profile, fence };
        let stops = stops.iter().map(|(profile, nodes)| provider.stop_nodes(call(profile), nodes.clone()));
        let starts = starts.iter().map(|(profile, nodes)| provider.start_nodes(call(profile), nodes.clone()));
        let mut results = futures::stream::select_all(stops.chain(starts)).ready_chunks(RESULTS_PER_BATCH);
        let mut flush = tokio::time::interval(self.context.config.flush_period.into());
        flush.reset();
        let mut starting: HashSet<NodeId> = plan.start.iter().copied().collect();
        let mut obstacles = Obstacles::default();
        loop {
            tokio::select! {
                biased;
                interrupted = self.interrupted_or_child_cancelled() => {
                    interrupted?;
                    // The next plan continues with the others, without the excluded ones.
                    self.leave_starts_unconfirmed(starting);
                    return Ok(());
                }
                some = results.next() => match some {
                    Some(some) => for result in some {
                        starting.remove(&result.node);
                        self.record_result(result, strategy);
                    },
                    None => return Ok(()),
                },
                _ = flush.tick() => self.flush_with_obstacles(&starting, &mut obstacles).await?,
            }
        }
    }
}
