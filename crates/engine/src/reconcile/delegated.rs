//! Clusters whose members an operator creates: one object is the spec of record, and the rows mirror it.
//!
//! An action observes, decides once, records the decision, writes once under its fence, and waits until the members are
//! observed. The row changes with the commit that records the acknowledged write, or when an external change is
//! observed.

pub(crate) mod decision;
pub(crate) mod mirror;
pub(crate) mod mirror_events;
pub(crate) mod plan;

use std::collections::HashSet;

use muster_core::action::ActionKind;
use muster_core::event::Level;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole};
use muster_core::time::{Span, Timestamp};

use crate::events::{self, reason};
use crate::intent::naming;
use crate::ports::provider::{FencedCall, MemberId, Object, Observed, ProviderError, SeenMember};
use crate::reconcile::delegated::decision::Task;
use crate::reconcile::delegated::mirror::Mirror;
use crate::reconcile::delegated::plan::{Complete, Memory, Write};
use crate::reconcile::{FUTILE_ATTEMPTS, Strategy, Verdict, drive};
use crate::run::{ActionRun, Stop};

/// Delegated membership: an operator owns the members, and Muster writes one object.
struct Delegated {
    memory: Memory,
    task: Option<Task>,
    /// The cluster's row differs from what is in memory.
    stale: bool,
    flushed_at: Timestamp,
    /// Writes that were acknowledged and got lost.
    lost_writes: u32,
    /// Why it has not ended yet.
    waits_for: Vec<String>,
    /// What was last observed.
    observed: Observed,
}

/// What is done in one step.
enum Step {
    /// The object is written.
    Call,
    /// The object has the wanted content already.
    Acknowledge,
}

/// Reconciles the object, and through it the members, with the change.
pub(crate) async fn reconcile(run: &mut ActionRun) -> Result<(), Stop> {
    let mut strategy = Delegated {
        memory: Memory { acknowledged: run.action.applied_at.is_some(), ..Memory::default() },
        task: Task::kept(run),
        stale: false,
        flushed_at: run.now(),
        lost_writes: 0,
        waits_for: Vec::new(),
        observed: Observed::default(),
    };
    match drive(run, &mut strategy).await {
        Ok(()) => Ok(()),
        Err(Stop::TimedOut) if !strategy.waits_for.is_empty() => {
            let (seconds, why) = (run.action.timeout.secs(), strategy.waits_for.join("; "));
            Err(Stop::Failed(format!("TIMEOUT: it did not end within {seconds} seconds: {why}")))
        }
        Err(stop) => {
            if strategy.stale && matches!(stop, Stop::HandOver | Stop::Suspended | Stop::Requeue(_)) {
                // Events are committed with the row that they are about.
                strategy.commit(run, false).await?;
            }
            Err(stop)
        }
    }
}

impl Strategy for Delegated {
    type Plan = Step;

    // Watches report changes, and after a restart also those that they may have missed; many clusters may wait for
    // their operators at the same time.
    const POLL_INTERVAL: Span = Span::from_secs(20);

    async fn observe(&mut self, run: &mut ActionRun) -> Result<Result<Observed, ProviderError>, Stop> {
        observe(run).await
    }

    fn plan(&mut self, run: &mut ActionRun, observed: Observed) -> Result<Verdict<Step>, Stop> {
        self.mirror(run, &observed);
        let task = match self.task.take() {
            Some(task) => task,
            None => Task::decide(run, &observed)?,
        };
        self.memory.called = task.called;
        let verdict = plan::plan(&task.goal, &observed, &self.memory, run.now());
        self.task = Some(task);
        self.observed = observed;
        Ok(match verdict {
            plan::Verdict::Call => Verdict::Apply(Step::Call),
            plan::Verdict::Acknowledged => Verdict::Apply(Step::Acknowledge),
            plan::Verdict::Wait(until, reasons) => Verdict::Wait(until, reasons),
            plan::Verdict::Reached => Verdict::Reached,
            plan::Verdict::Unreachable(reasons) => Verdict::Unreachable(reasons),
        })
    }

    async fn apply(&mut self, run: &mut ActionRun, step: Step) -> Result<(), Stop> {
        let Some(task) = self.task.clone() else { return Ok(()) };
        match step {
            Step::Call => self.call(run, task).await,
            Step::Acknowledge => self.acknowledge(run, &task, false).await,
        }
    }

    /// Observations are committed before the wait, but not after every single member.
    async fn commit_before_wait(
        &mut self,
        run: &mut ActionRun,
        reasons: Vec<String>,
    ) -> Result<Option<Timestamp>, Stop> {
        self.note(run, reasons);
        let due = self.flushed_at.after(run.context.config.flush_period);
        if !self.stale && run.journal.is_empty() {
            return Ok(None);
        }
        if due > run.now() {
            return Ok(Some(due));
        }
        self.commit(run, false).await?;
        Ok(None)
    }

    async fn finish(&mut self, run: &mut ActionRun) -> Result<(), Stop> {
        let Some(task) = self.task.clone() else { return Ok(()) };
        Self::settle(run, &task).await?;
        if let Object::Present(spec) = &self.observed.object {
            run.obstacles = plan::obstacles(run.subject.cluster.has_head, spec, &self.observed.members);
        }
        tell_of_old_ones(run, &task, &self.observed);
        Ok(())
    }
}

impl Delegated {
    fn mirror(&mut self, run: &mut ActionRun, seen: &Observed) {
        let spec = match &seen.object {
            Object::Unknown => return,
            Object::Absent => None,
            Object::Present(spec) => Some(spec),
        };
        let deletes = run.action.kind == ActionKind::ClusterDelete;
        let expected = |node: &Node| deletes || self.task.as_ref().is_some_and(|task| task.expects(node));
        let mirror =
            mirror::mirror(&run.subject.cluster, &run.subject.nodes, seen, spec, expected, run.now());
        self.take_in(run, mirror);
    }

    fn take_in(&mut self, run: &mut ActionRun, mirror: Mirror) {
        if mirror.is_same_as(&run.subject.cluster) {
            return;
        }
        let Mirror { cluster, new, changed, gone, told } = mirror;
        let events = mirror_events::tell(Some(&run.action), &cluster, told, run.now());
        run.journal.events.extend(events);
        run.subject.cluster = cluster;
        self.stale = true;
        for node in changed {
            if let Some(row) = run.node_mut(node.id) {
                *row = node;
            }
        }
        run.add_new_nodes(new);
        let gone: HashSet<NodeId> = gone.into_iter().collect();
        // A row that was never written needs no removal.
        let written = gone.iter().filter(|id| !run.journal.unborn.contains(id)).copied();
        run.journal.gone.extend(written.collect::<Vec<_>>());
        if !gone.is_empty() {
            run.remove_nodes(&gone);
        }
    }

    /// Records what is about to be written and under which fence, then writes it.
    async fn call(&mut self, run: &mut ActionRun, mut task: Task) -> Result<(), Stop> {
        task.called = task.called.or(Some(run.action.fence));
        task.keep(run);
        let task = self.task.insert(task).clone();
        // A creation needs no record before the write: its intent was committed when the action was accepted.
        if task.goal.write != Write::Create {
            self.commit(run, false).await?;
            run.check()?;
        }
        let intent = task.intend(&run.subject.cluster, &run.change)?;
        let old: Vec<MemberId> = task.goal.old.iter().cloned().collect();
        let victims: Vec<Node> = task.victims.iter().filter_map(|id| run.node(*id).cloned()).collect();
        let operator = run.operator_provider()?;
        let call = FencedCall { cluster: &intent, ..run.call() };
        let written = async {
            match task.goal.write {
                Write::Create => operator.create(call).await,
                Write::Update => operator.write(call, &run.subject.cluster, &victims).await,
                Write::RestartHead => operator.restart_head(call, &old).await,
                Write::Delete => operator.delete(call).await,
                Write::Nothing => Ok(()),
            }
        };
        match run.call_provider(written).await? {
            Ok(()) => self.acknowledge(run, &task, true).await,
            Err(error) => {
                if error.transient {
                    // Clients that wait see why it takes so long.
                    run.subject.cluster.status_reason.clone_from(&error.message);
                    self.stale = true;
                }
                Err(error.into())
            }
        }
    }

    /// Commits the acknowledged write to the row, with a placeholder for each member that does not exist yet.
    async fn acknowledge(&mut self, run: &mut ActionRun, task: &Task, called: bool) -> Result<(), Stop> {
        if self.memory.acknowledged {
            // Acknowledged before, and lost. The next attempt waits.
            self.lost_writes += 1;
            if self.lost_writes >= FUTILE_ATTEMPTS {
                let times = self.lost_writes + 1;
                return Err(Stop::Failed(format!("it was acknowledged {times} times, and is not there")));
            }
            self.memory.not_before = Some(run.now().after(run.context.config.retry_delay(self.lost_writes)));
            return Ok(());
        }
        self.memory.acknowledged = true;
        run.subject.cluster = task.intend(&run.subject.cluster, &run.change)?;
        if task.goal.recipe {
            // The next observation shows what was just written.
            run.subject.cluster.observed.made.clear();
        }
        if called {
            run.subject.cluster.observed.fence = run.subject.cluster.observed.fence.max(run.action.fence);
        }
        add_placeholders(run, task);
        task.keep(run);
        self.stale = true;
        // The current observation goes into the same commit.
        if let Ok(seen) = observe(run).await? {
            self.mirror(run, &seen);
            if let plan::Verdict::Wait(_, why) = plan::plan(&task.goal, &seen, &self.memory, run.now()) {
                self.note(run, why);
            }
        }
        self.commit(run, true).await
    }

    /// Records in the row why the action still waits.
    fn note(&mut self, run: &mut ActionRun, why: Vec<String>) {
        if !why.is_empty() && why != self.waits_for {
            run.subject.cluster.status_reason = why.join("; ");
            self.waits_for = why;
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

    /// Removes what was needed only until the goal was reached.
    async fn settle(run: &ActionRun, task: &Task) -> Result<(), Stop> {
        if task.victims.is_empty() || task.called.is_none() {
            return Ok(());
        }
        match run.call_provider(run.operator_provider()?.settle(run.call())).await? {
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

/// Observes the object and its members.
async fn observe(run: &mut ActionRun) -> Result<Result<Observed, ProviderError>, Stop> {
    run.observed_version = run.world.version();
    // Members are recognised by their identities: the provider does not need the rows.
    let seen = run.call_provider(run.provider.observe(run.target(), &[])).await?;
    Ok(seen.map(|seen| mirror_events::identified(&run.subject.cluster, seen)))
}

/// Adds a row for each requested member that was not observed yet, so that it has an id.
fn add_placeholders(run: &mut ActionRun, task: &Task) {
    let now = run.now();
    let creates = task.goal.write == Write::Create;
    let mut new = Vec::new();
    if creates
        && run.subject.cluster.has_head
        && run.subject.nodes.iter().all(|node| node.role != NodeRole::Head)
    {
        new.push(naming::head(&run.subject.cluster, now));
    }
    for group in run.subject.cluster.groups.clone() {
        let asked =
            task.goal.wanted.iter().any(|wanted| wanted.group == group.name && wanted.desired.is_some());
        if !(creates || asked) {
            continue;
        }
        let own = |node: &&Node| {
            node.group.as_ref() == Some(&group.name) && (mirror::stays(node) || mirror::is_placeholder(node))
        };
        let present = u32::try_from(run.subject.nodes.iter().filter(own).count()).unwrap_or(u32::MAX);
        let missing = group.desired.saturating_sub(present);
        new.extend(naming::new_workers(&mut run.subject.cluster, &group.name, missing, now));
    }
    run.add_new_nodes(new);
}

/// Records an event for outdated members where the operator does not replace them.
fn tell_of_old_ones(run: &mut ActionRun, task: &Task, seen: &Observed) {
    if !task.goal.recipe || task.goal.rolled || task.goal.complete == Complete::All {
        return;
    }
    // Not all of their recipe can be observed, such as environment variables.
    let is_old = |member: &&SeenMember| member.outdated || task.before.contains(&member.id);
    let old: Vec<&str> = seen.members.iter().filter(is_old).map(|member| member.name.as_str()).collect();
    if old.is_empty() {
        return;
    }
    let message = format!("made from an older recipe until they are restarted: {}", old.join(", "));
    let event = events::of_cluster(
        Some(&run.action),
        &run.subject.cluster,
        Level::Warn,
        reason::RESTART_NEEDED,
        &message,
        run.now(),
    );
    run.journal.events.push(event);
}
