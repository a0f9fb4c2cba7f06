//! Clusters whose members an operator creates: one object is the spec of record, and the rows mirror it.
//!
//! An action observes, decides once, records the decision, writes once under its fence, and waits until the members are
//! observed. The row changes with the commit that records the acknowledged write, or when an external change is
//! observed.

pub(crate) mod decision;
pub(crate) mod mirror;
pub(crate) mod mirror_events;
mod placeholders;
pub(crate) mod plan;

use std::collections::HashSet;

use muster_core::action::{Action, ActionKind, REFUSAL_OUTPUT};
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::node::{Node, NodeRole};
use muster_core::restart::ReplacedHead;
use muster_core::time::{TimeSpan, Timestamp};

use crate::intent::properties_after;
use crate::ports::provider::{
    CHANGED_MEANWHILE, ClusterTarget, FencedCall, MemberId, ObjectChange, ObjectState, Observed,
    ObservedMember, ProviderError,
};
use crate::reconcile::delegated::decision::WriteDecision;
use crate::reconcile::delegated::mirror::MirroredRows;
use crate::reconcile::delegated::placeholders::add_placeholders;
use crate::reconcile::delegated::plan::{Write, WriteProgress};
use crate::reconcile::reasons::report_restart_needed;
use crate::reconcile::{FUTILE_ATTEMPTS, Strategy, StrategyVerdict, drive};
use crate::run::{ActionRun, Journal, RunSubject, Stop};

/// The reason of a refusal because the object does not exist.
const NOT_FOUND: &str = "NotFound";

/// Delegated membership: an operator owns the members, and Muster writes one object.
struct Delegated {
    progress: WriteProgress,
    decision: Option<WriteDecision>,
    /// True if the cluster's row differs from the cluster in memory.
    stale: bool,
    flushed_at: Timestamp,
    /// The number of writes that were acknowledged and got lost.
    lost_writes: u32,
    /// The reasons why the action still waits.
    wait_reasons: Vec<String>,
    /// The last observation.
    observed: Observed,
    /// Whether the update changes the recipe in the object, if the provider has compared them.
    differs: Option<bool>,
}

/// One step of an action on a delegated cluster.
enum ObjectStep {
    /// Writes the object.
    Call,
    /// Records that the object has the wanted content already.
    Acknowledge,
    /// Lets the operator replace this worker.
    Replace(MemberId),
}

/// Reconciles the object, and through it the members, with the change.
pub(crate) async fn reconcile(run: &mut ActionRun) -> Result<(), Stop> {
    let mut strategy = Delegated {
        progress: WriteProgress { acknowledged: run.action.applied_at.is_some(), ..WriteProgress::default() },
        decision: WriteDecision::load(&run.subject, &run.change, &run.data),
        stale: false,
        flushed_at: run.now(),
        lost_writes: 0,
        wait_reasons: Vec::new(),
        observed: Observed::default(),
        differs: None,
    };
    match drive(run, &mut strategy).await {
        Ok(()) => Ok(()),
        Err(Stop::TimedOut) if !strategy.wait_reasons.is_empty() => {
            let (seconds, why) = (run.action.timeout.secs(), strategy.wait_reasons.join("; "));
            Err(Stop::Failed(format!("TIMEOUT: it did not end within {seconds} seconds: {why}")))
        }
        Err(stop) => {
            if matches!(stop, Stop::Failed(_)) && strategy.is_object_gone(run) {
                run.journal.set_output(REFUSAL_OUTPUT, NOT_FOUND.into());
            }
            if strategy.stale
                && matches!(stop, Stop::HandOver | Stop::Suspended | Stop::Requeue(_) | Stop::Overtaken(_))
            {
                // Events are committed with the row that they are about.
                strategy.commit(run, false).await?;
            }
            Err(stop)
        }
    }
}

impl Strategy for Delegated {
    type Plan = ObjectStep;

    // Watches report changes, after a restart also missed ones: poll rarely, since many clusters may wait for their
    // operators at the same time.
    const POLL_INTERVAL: TimeSpan = TimeSpan::from_secs(20);

    async fn observe(&mut self, run: &mut ActionRun) -> Result<Result<Observed, ProviderError>, Stop> {
        let observed = match observe(run).await? {
            Ok(observed) => observed,
            error => return Ok(error),
        };
        match self.compare_recipe(run, &observed).await? {
            // The provider has read the object again, so that nothing is left unchanged because of an old observation.
            Ok(Some(false)) => observe(run).await,
            Ok(_) => Ok(Ok(observed)),
            Err(error) => Ok(Err(error)),
        }
    }

    fn plan(&mut self, run: &mut ActionRun, observed: Observed) -> Result<StrategyVerdict<ObjectStep>, Stop> {
        let now = run.now();
        self.mirror(&run.action, &mut run.subject, &mut run.journal, &observed, now);
        let decide = || WriteDecision::decide(&run.subject, &run.change, &run.data, &observed, self.differs);
        let decision = match self.decision.take() {
            // Others may have changed the object since the decision: a relative change counts from its present sizes.
            Some(decision) if !self.progress.acknowledged && decision.has_not_landed(&observed) => {
                WriteDecision { called: decision.called, ..decide()? }
            }
            Some(decision) => decision,
            None => decide()?,
        };
        self.progress.called = decision.called;
        if self.progress.acknowledged && decision.goal.may_be_superseded() {
            run.control.allow_yield();
        }
        let verdict = plan::plan(&decision.goal, &observed, &self.progress, now);
        self.decision = Some(decision);
        self.observed = observed;
        Ok(match verdict {
            plan::ObjectVerdict::Call => StrategyVerdict::Apply(ObjectStep::Call),
            plan::ObjectVerdict::Acknowledged => StrategyVerdict::Apply(ObjectStep::Acknowledge),
            plan::ObjectVerdict::Replace(worker) => StrategyVerdict::Apply(ObjectStep::Replace(worker)),
            plan::ObjectVerdict::Wait(until, reasons) => StrategyVerdict::Wait(until, reasons),
            plan::ObjectVerdict::Reached => StrategyVerdict::Reached,
            plan::ObjectVerdict::Unreachable(reasons) => StrategyVerdict::Unreachable(reasons),
        })
    }

    async fn apply(&mut self, run: &mut ActionRun, step: ObjectStep) -> Result<(), Stop> {
        let Some(decision) = self.decision.clone() else { return Ok(()) };
        match step {
            ObjectStep::Call => self.call(run, decision).await,
            ObjectStep::Acknowledge => self.acknowledge(run, &decision, false).await,
            ObjectStep::Replace(worker) => self.replace(run, worker).await,
        }
    }

    /// Commits observations at most once per flush period, because members become ready one by one.
    async fn commit_before_wait(
        &mut self,
        run: &mut ActionRun,
        reasons: Vec<String>,
    ) -> Result<Option<Timestamp>, Stop> {
        self.set_wait_reasons(&mut run.subject.cluster, reasons);
        let due = self.flushed_at.after(run.context.config.flush_period);
        if !self.stale && !run.has_pending_changes() {
            return Ok(None);
        }
        if due > run.now() {
            return Ok(Some(due));
        }
        self.commit(run, false).await?;
        Ok(None)
    }

    async fn finish(&mut self, run: &mut ActionRun) -> Result<(), Stop> {
        let Some(decision) = self.decision.clone() else { return Ok(()) };
        Self::settle(run, &decision).await?;
        if let ObjectState::Present(spec) = &self.observed.object {
            run.subject.obstacles =
                plan::obstacles(run.subject.cluster.has_head, spec, &self.observed.members);
        }
        let outdated = outdated_members(&decision, &self.observed);
        let is_old = |node: &Node| MemberId::of(node).is_some_and(|member| outdated.contains(&member));
        run.subject.nodes.change_where(is_old, |node| node.set_outdated(true));
        if !outdated.is_empty() {
            report_restart_needed(run);
        }
        Ok(())
    }
}

impl Delegated {
    /// Compares the object with the recipe that an update names, if the write is still to be decided: others may have
    /// changed the object, also where the rows do not follow it.
    async fn compare_recipe(
        &mut self,
        run: &mut ActionRun,
        observed: &Observed,
    ) -> Result<Result<Option<bool>, ProviderError>, Stop> {
        let is_decided = self.progress.acknowledged
            || self.decision.as_ref().is_some_and(|decision| !decision.has_not_landed(observed));
        let is_present = matches!(&observed.object, ObjectState::Present(spec) if !spec.leaving);
        if is_decided || !is_present || !names_recipe(&run.change) {
            return Ok(Ok(None));
        }
        let now = run.now();
        self.mirror(&run.action, &mut run.subject, &mut run.journal, observed, now);
        let (Change::UpdateCluster(update), Ok(after)) =
            (&run.change, properties_after(&run.subject.cluster, &run.change))
        else {
            return Ok(Ok(None));
        };
        let (operator, before) = (run.operator_provider()?, &run.subject.cluster);
        let target = ClusterTarget { cluster: &after, ..run.subject.as_target() };
        let differs = operator.differs(target, before, update);
        let compared = run.control.call_provider(differs).await?;
        Ok(compared.inspect(|differs| self.differs = *differs))
    }

    /// Returns true if an existing object, which the action changes, was deleted by others or is being deleted.
    fn is_object_gone(&self, run: &ActionRun) -> bool {
        let changes = !matches!(run.action.kind, ActionKind::ClusterCreate | ActionKind::ClusterDelete);
        let is_gone = match &self.observed.object {
            ObjectState::Unknown => false,
            ObjectState::Absent => true,
            ObjectState::Present(spec) => spec.leaving,
        };
        changes && is_gone && run.subject.cluster.observed.object.is_some()
    }

    /// Applies an observation to the rows in memory.
    fn mirror(
        &mut self,
        action: &Action,
        subject: &mut RunSubject,
        journal: &mut Journal,
        observed: &Observed,
        now: Timestamp,
    ) {
        let spec = match &observed.object {
            ObjectState::Unknown => return,
            ObjectState::Absent => None,
            ObjectState::Present(spec) => Some(spec),
        };
        let deletes = action.kind == ActionKind::ClusterDelete;
        let expected = |node: &Node| {
            deletes || self.decision.as_ref().is_some_and(|decision| decision.expects_loss_of(node))
        };
        let nodes = subject.nodes.as_slice();
        let called = self.decision.as_ref().and_then(|decision| decision.called);
        let mirror = mirror::mirror(&subject.cluster, nodes, observed, spec, (called, expected), now);
        if mirror.is_same_as(&subject.cluster) {
            return;
        }
        let MirroredRows { cluster, new, changed, gone, events, object } = mirror;
        journal.events.extend(mirror_events::to_events(Some(action), &cluster, events, now));
        if let Some(object) = object {
            journal.object = Some((cluster.id, object));
        }
        subject.cluster = cluster;
        self.stale = true;
        for node in changed {
            if let Some(row) = subject.nodes.get_mut(node.id) {
                *row = node;
            }
        }
        subject.nodes.add_new(new);
        subject.nodes.delete(gone);
    }

    /// Records the decision and its fence, then writes the object.
    async fn call(&mut self, run: &mut ActionRun, mut decision: WriteDecision) -> Result<(), Stop> {
        if let ObjectState::Present(spec) = &self.observed.object
            && spec.fence > run.action.fence
        {
            // If a lower fence were recorded, the object would count as written by this action.
            return Err(Stop::Overtaken(spec.fence));
        }
        decision.called = decision.called.or(Some(run.action.fence));
        decision.save(&mut run.data);
        let decision = self.decision.insert(decision).clone();
        if decision.goal.write == Write::RestartHead || (decision.goal.head && decision.goal.rolled) {
            self.report_restart(run);
        }
        // A creation needs no record before the write: its intent was committed when the action was accepted.
        if decision.goal.write != Write::Create {
            self.commit(run, false).await?;
            run.control.check()?;
        }
        let intent = decision.intended_cluster(&run.subject.cluster, &run.change)?;
        let old: Vec<MemberId> = decision.goal.old.iter().cloned().collect();
        let victims: Vec<Node> =
            decision.victims.iter().filter_map(|id| run.subject.node(*id).cloned()).collect();
        let sized = decision.goal.wanted.iter().filter(|wanted| wanted.desired.is_some());
        let resized: Vec<String> = sized.map(|wanted| wanted.group.clone()).collect();
        let operator = run.operator_provider()?;
        let call = FencedCall { cluster: &intent, ..run.call() };
        let change = ObjectChange {
            before: &run.subject.cluster,
            resized: &resized,
            update: if let Change::UpdateCluster(update) = &run.change {
                Some(update.as_ref())
            } else {
                None
            },
            victims: &victims,
        };
        let written = async {
            match decision.goal.write {
                Write::Create => operator.create(call).await,
                Write::Update => operator.write(call, change).await,
                Write::RestartHead => operator.replace_members(call, &old).await,
                Write::Delete => operator.delete(call).await,
                Write::Nothing => Ok(()),
            }
        };
        match run.control.call_provider(written).await? {
            Ok(()) => self.acknowledge(run, &decision, true).await,
            Err(error) => {
                if !error.transient {
                    run.journal.set_output(REFUSAL_OUTPUT, error.reason.as_str().into());
                }
                if error.reason == CHANGED_MEANWHILE {
                    run.data.delegated.get_or_insert_default().refused = true;
                }
                if error.transient {
                    // Shows waiting clients the cause of the delay.
                    run.subject.cluster.status_reason.clone_from(&error.message);
                    self.stale = true;
                }
                Err(error.into())
            }
        }
    }

    /// Removes one worker, which its operator then recreates. A later observation shows when that is done.
    async fn replace(&mut self, run: &mut ActionRun, worker: MemberId) -> Result<(), Stop> {
        // The observed members are committed before one of them is removed.
        self.commit(run, false).await?;
        run.control.check()?;
        let operator = run.operator_provider()?;
        let old = std::slice::from_ref(&worker);
        run.control.call_provider(operator.replace_members(run.call(), old)).await??;
        let again = run.now().after(run.context.config.retry_delay(1));
        self.progress.replacing = Some((worker, again));
        Ok(())
    }

    /// Reports the head that is about to be replaced.
    fn report_restart(&self, run: &mut ActionRun) {
        let head =
            self.observed.members.iter().find(|member| member.role == NodeRole::Head && !member.leaving);
        if let Some(head) = head {
            let replaced = ReplacedHead { name: head.name.clone(), uid: head.id.uid.clone(), at: run.now() };
            run.journal.report_replaced_head(&replaced);
        }
    }

    /// Commits the acknowledged write to the row, with a placeholder for each member that does not exist yet.
    async fn acknowledge(
        &mut self,
        run: &mut ActionRun,
        decision: &WriteDecision,
        called: bool,
    ) -> Result<(), Stop> {
        if self.progress.acknowledged {
            // The write was acknowledged before and got lost: the next attempt waits.
            self.lost_writes += 1;
            if self.lost_writes >= FUTILE_ATTEMPTS {
                let times = self.lost_writes + 1;
                return Err(Stop::Failed(format!("not found after {times} acknowledged writes")));
            }
            self.progress.not_before =
                Some(run.now().after(run.context.config.retry_delay(self.lost_writes)));
            return Ok(());
        }
        self.progress.acknowledged = true;
        run.subject.cluster = decision.intended_cluster(&run.subject.cluster, &run.change)?;
        if decision.goal.recipe {
            // Compared with the old templates, this write would look like a change made elsewhere.
            run.subject.cluster.observed.templates.clear();
        }
        if called {
            run.subject.cluster.observed.fence = run.subject.cluster.observed.fence.max(run.action.fence);
        }
        let now = run.now();
        add_placeholders(&mut run.subject, &decision.goal, now);
        decision.save(&mut run.data);
        self.stale = true;
        // The same commit writes the current observation.
        if let Ok(observed) = observe(run).await? {
            let now = run.now();
            self.mirror(&run.action, &mut run.subject, &mut run.journal, &observed, now);
            let verdict = plan::plan(&decision.goal, &observed, &self.progress, now);
            if let plan::ObjectVerdict::Wait(_, why) = verdict {
                self.set_wait_reasons(&mut run.subject.cluster, why);
            }
        }
        self.commit(run, true).await
    }

    /// Records in the row why the action still waits.
    fn set_wait_reasons(&mut self, cluster: &mut Cluster, why: Vec<String>) {
        if !why.is_empty() && why != self.wait_reasons {
            cluster.status_reason = why.join("; ");
            self.wait_reasons = why;
            self.stale = true;
        }
    }

    async fn commit(&mut self, run: &mut ActionRun, applied: bool) -> Result<(), Stop> {
        let mut record = run.pending();
        record.applied = applied;
        record.cluster = std::mem::take(&mut self.stale).then(|| run.subject.cluster.clone());
        record.data = run.data.stored();
        self.flushed_at = run.now();
        run.record(record).await
    }

    /// Removes from the object what was needed only until the goal was reached, such as names of victims.
    async fn settle(run: &ActionRun, decision: &WriteDecision) -> Result<(), Stop> {
        if decision.victims.is_empty() || decision.called.is_none() {
            return Ok(());
        }
        match run.control.call_provider(run.operator_provider()?.settle(run.call())).await? {
            Ok(()) => Ok(()),
            Err(error) if error.transient => Err(error.into()),
            Err(error) => {
                // The goal is reached; leftovers are harmless.
                tracing::warn!(%error, "cannot settle");
                Ok(())
            }
        }
    }
}

/// Returns true if a change is an update that names a part of the recipe of nodes.
fn names_recipe(change: &Change) -> bool {
    matches!(change, Change::UpdateCluster(update) if update.names_recipe())
}

/// Observes the object and its members.
async fn observe(run: &mut ActionRun) -> Result<Result<Observed, ProviderError>, Stop> {
    run.world.begin_observation();
    let nodes = run.subject.nodes.as_slice();
    let observed = run.control.call_provider(run.provider.observe(run.subject.as_target(), nodes)).await?;
    Ok(observed.map(|observed| mirror_events::ignore_other_objects(&run.subject.cluster, observed)))
}

/// Returns the members with an older recipe that the operator does not replace.
fn outdated_members(decision: &WriteDecision, observed: &Observed) -> HashSet<MemberId> {
    if !decision.goal.recipe || decision.goal.rolled {
        return HashSet::new();
    }
    // Parts of a recipe cannot be observed, such as environment variables: members from before count as outdated.
    let is_old = |member: &&ObservedMember| member.outdated || decision.before.contains(&member.id);
    observed.members.iter().filter(is_old).map(|member| member.id.clone()).collect()
}
