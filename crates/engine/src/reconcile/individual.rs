//! Individual membership: observes, plans, records and acts until the members match the goal.

pub(crate) mod abort;
mod devices;
pub(crate) mod observe;
pub(crate) mod obstacles;
pub(crate) mod plan;
mod record;
pub(crate) mod results;

use std::collections::{HashMap, HashSet};

use futures::StreamExt as _;
use muster_core::backoff::Backoff;
use muster_core::ids::NodeId;
use muster_core::node::Observation;
use muster_core::time::{TimeSpan, Timestamp};

use crate::ports::provider::{FencedCall, NodeResult, Observed, ProviderError};
use crate::reconcile::individual::devices::{record_devices, record_observed_devices};
use crate::reconcile::individual::obstacles::{Obstacles, flush_with_obstacles};
use crate::reconcile::individual::plan::{Plan, RetryState};
use crate::reconcile::individual::record::{add_members, record_observed, remove_gone};
use crate::reconcile::{Strategy, StrategyVerdict, drive};
use crate::run::{ActionRun, RunSubject, Stop};

/// The most results that are processed together: a larger batch would delay signals and flushes.
const RESULTS_PER_BATCH: usize = 1024;

/// The goal for the members of a cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Goal {
    /// Members to remove.
    pub(crate) leaving: HashSet<NodeId>,
    /// True if members are added and started; otherwise they are only removed or observed.
    pub(crate) start: bool,
    /// True if the cluster's row carries a changed intent, which the first step writes.
    pub(crate) new_intent: bool,
    /// The only member that is handled, if there is one; other missing members stay missing.
    pub(crate) only: Option<NodeId>,
    /// True if no member is added.
    pub(crate) keep_size: bool,
    /// Members to recreate, with their old physical ids.
    pub(crate) recreate: HashMap<NodeId, String>,
    /// The deadline, if it is before the timeout of the action.
    pub(crate) deadline: Option<Timestamp>,
}

/// Individual membership: Muster starts and stops each node.
pub(crate) struct Individual<'g> {
    goal: &'g Goal,
    /// Delays between attempts that fail.
    backoff: Backoff,
    retry_state: RetryState,
    /// The number of transient failures in a row, by node.
    failures: HashMap<NodeId, u32>,
    /// The number of acknowledged stops, by node.
    stops: HashMap<NodeId, u32>,
    /// True if the cluster's row carries a changed intent that no commit has written yet.
    new_intent: bool,
}

/// One step: the nodes to start and stop, and those among them that are new.
pub(crate) struct MemberStep {
    plan: Plan,
    added: Vec<NodeId>,
}

/// An event while nodes are started and stopped.
enum MemberProgress {
    Results(Vec<NodeResult>),
    /// The flush period has passed: pending results are written.
    Flush,
    /// A user excluded nodes by cancelling their child actions.
    ChildCancelled,
    Done,
}

/// Reconciles the members of the cluster with a goal.
pub(crate) async fn reconcile(run: &mut ActionRun, goal: &Goal) -> Result<(), Stop> {
    let mut strategy = Individual::new(goal, run.context.config.backoff, run.children.given_up.clone());
    run.control.deadline = goal.deadline;
    let reached = drive(run, &mut strategy).await;
    run.control.deadline = None;
    reached
}

impl Strategy for Individual<'_> {
    type Plan = MemberStep;

    // Providers report changes; polling is only a safety net.
    const POLL_INTERVAL: TimeSpan = TimeSpan::from_secs(5);

    async fn observe(&mut self, run: &mut ActionRun) -> Result<Result<Observed, ProviderError>, Stop> {
        let (cancelled, now) = (run.control.cancelled(&run.children), run.now());
        self.exclude(&cancelled, &mut run.subject.nodes, &mut run.children, now);
        let observation = observe::observe(run.provider.as_ref(), &run.subject, self.goal.only);
        let observed = run.control.call_provider(observation).await?;
        if let Ok(observed) = &observed {
            record_observed_devices(run, observed);
        }
        Ok(observed)
    }

    fn plan(
        &mut self,
        run: &mut ActionRun,
        mut observed: Observed,
    ) -> Result<StrategyVerdict<MemberStep>, Stop> {
        let now = run.now();
        let ActionRun { subject, children, journal, data, .. } = run;
        subject.nodes.remove_starts_that_did_not_happen(&observed);
        let mut plan = self.plan_members(subject, &observed, now);
        let mut added = Vec::new();
        if plan.add_head || !plan.add.is_empty() {
            // Added in memory first, so that the same step starts them too.
            added = add_members(subject, data, &plan, now);
            observed.nodes.extend(added.iter().map(|id| (*id, Observation::Absent)));
            plan = self.plan_members(subject, &observed, now);
        }
        record_observed(&mut subject.nodes, children, &plan, now);
        if self.give_up_stops(&plan, &mut subject.nodes, children, journal, now) {
            plan = self.plan_members(subject, &observed, now);
        }
        observed.write_contact_to(&mut subject.cluster);
        Ok(match &plan.verdict {
            plan::MemberVerdict::Act => StrategyVerdict::Apply(MemberStep { plan, added }),
            plan::MemberVerdict::Wait(until) => StrategyVerdict::Wait(*until, Vec::new()),
            plan::MemberVerdict::Reached => {
                remove_gone(&mut subject.nodes, children, &plan.gone);
                StrategyVerdict::Reached
            }
            plan::MemberVerdict::Unreachable(reasons) => {
                remove_gone(&mut subject.nodes, children, &plan.gone);
                StrategyVerdict::Unreachable(reasons.clone())
            }
        })
    }

    async fn apply(&mut self, run: &mut ActionRun, step: MemberStep) -> Result<(), Stop> {
        let intent = std::mem::take(&mut self.new_intent);
        record::record_step(run, self.goal, &step, intent).await?;
        Box::pin(self.start_and_stop(run, &step.plan)).await
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

impl<'g> Individual<'g> {
    fn new(goal: &'g Goal, backoff: Backoff, given_up: HashMap<NodeId, String>) -> Self {
        let retry_state = RetryState { given_up, ..RetryState::default() };
        let (failures, stops) = (HashMap::new(), HashMap::new());
        Self { goal, backoff, retry_state, failures, stops, new_intent: goal.new_intent }
    }

    fn plan_members(&self, subject: &RunSubject, observed: &Observed, now: Timestamp) -> Plan {
        let Goal { leaving, start, only, keep_size, recreate, .. } = self.goal;
        let input = plan::Input {
            cluster: &subject.cluster,
            leaving,
            workers_outlive_head: subject.capabilities.workers_outlive_head,
            start: *start,
            only: *only,
            keep_size: *keep_size,
            recreate,
        };
        plan::plan(input, subject.nodes.as_slice(), observed, &self.retry_state, now)
    }

    /// Starts and stops nodes concurrently, processes results as they come, and flushes them periodically.
    async fn start_and_stop(&mut self, run: &mut ActionRun, plan: &Plan) -> Result<(), Stop> {
        let provider = run.node_provider()?;
        let (cluster, fence) = (run.subject.cluster.clone(), run.action.fence);
        let (stops, starts) = (run.subject.by_profile(&plan.stop), run.subject.by_profile(&plan.start));
        let call = |profile| FencedCall { cluster: &cluster, profile, fence };
        let stops = stops.iter().map(|(profile, nodes)| provider.stop_nodes(call(profile), nodes.clone()));
        let starts = starts.iter().map(|(profile, nodes)| provider.start_nodes(call(profile), nodes.clone()));
        let mut results = futures::stream::select_all(stops.chain(starts)).ready_chunks(RESULTS_PER_BATCH);
        let mut flush = tokio::time::interval(run.context.config.flush_period.into());
        flush.reset();
        let mut starting: HashSet<NodeId> = plan.start.iter().copied().collect();
        let mut changing: HashSet<NodeId> =
            plan.stop.iter().copied().chain(starting.iter().copied()).collect();
        let mut obstacles = Obstacles::default();
        loop {
            // Nodes may take minutes to start: waiting for them occupies no slot.
            let progress = run.control.yield_slot_while(async {
                tokio::select! {
                    biased;
                    interrupted = run.control.interrupted_or_child_cancelled(&run.children) =>
                        interrupted.map(|()| MemberProgress::ChildCancelled),
                    some = results.next() => Ok(some.map_or(MemberProgress::Done, MemberProgress::Results)),
                    _ = flush.tick() => Ok(MemberProgress::Flush),
                }
            });
            match progress.await? {
                MemberProgress::Results(some) => {
                    let started =
                        |result: &NodeResult| matches!(result.result, Ok(Some(_))).then_some(result.node);
                    let started: Vec<NodeId> = some.iter().filter_map(started).collect();
                    for result in some {
                        // Each result gets a time of its own, in order: policies compare the ages of nodes.
                        let now = run.now();
                        starting.remove(&result.node);
                        changing.remove(&result.node);
                        if let Some(fence) = result.overtaken_by() {
                            run.subject.nodes.leave_starts_unconfirmed(starting);
                            return Err(Stop::Overtaken(fence));
                        }
                        let ActionRun { subject, children, journal, .. } = &mut *run;
                        self.record_result(result, &mut subject.nodes, children, journal, now);
                    }
                    record_devices(run, &started);
                }
                MemberProgress::Flush => flush_with_obstacles(run, &changing, &mut obstacles).await?,
                // The next plan continues with the others, without the excluded ones.
                MemberProgress::ChildCancelled => {
                    run.subject.nodes.leave_starts_unconfirmed(starting);
                    return Ok(());
                }
                MemberProgress::Done => return Ok(()),
            }
        }
    }
}
