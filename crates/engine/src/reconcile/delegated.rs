//! Clusters whose members an operator makes: one object is the spec of record, and the rows mirror it.
//!
//! An action looks, decides once, records that, writes once under its fence, and waits until the members are seen. The
//! row changes with the commit that says the write was acknowledged, or when somebody else's change is seen.

pub(crate) mod decision;
pub(crate) mod mirror;
pub(crate) mod mirror_events;
pub(crate) mod plan;

use std::collections::HashSet;
use std::time::Duration;

use muster_core::action::ActionKind;
use muster_core::event::Level;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole};
use muster_core::time::{Span, Timestamp};

use crate::events::{self, reason};
use crate::intent::naming;
use crate::ports::provider::{Call, MemberId, Object, Observed, ProviderError, SeenMember};
use crate::reconcile::delegated::decision::Task;
use crate::reconcile::delegated::mirror::Mirror;
use crate::reconcile::delegated::plan::{Complete, Memory, Verdict, Write};
use crate::reconcile::individual::tell_blindness;
use crate::run::{ActionRun, Stop};

/// Works until the goal of the action is seen.
pub(crate) async fn reconcile(run: &mut ActionRun) -> Result<(), Stop> {
    let mut drive = Drive {
        memory: Memory { acknowledged: run.action.applied_at.is_some(), ..Memory::default() },
        task: Task::kept(run),
        stale: false,
        flushed_at: run.now(),
        lost: 0,
        blind: 0,
        waits_for: Vec::new(),
    };
    match drive.reach(run).await {
        Ok(()) => Ok(()),
        Err(Stop::TimedOut) if !drive.waits_for.is_empty() => {
            let (seconds, why) = (run.action.timeout.secs(), drive.waits_for.join("; "));
            Err(Stop::Failed(format!("TIMEOUT: it did not end within {seconds} seconds: {why}")))
        }
        Err(stop) => {
            if drive.stale && matches!(stop, Stop::HandOver | Stop::Suspended | Stop::Requeue(_)) {
                // Events that were told go with the row that they are about.
                drive.commit(run, false).await?;
            }
            Err(stop)
        }
    }
}

/// How long nothing may be heard before it is looked all the same. Watches tell, and what they may have missed is told
/// at once when they begin anew; many clusters may wait for their operators at the same time.
const LOOK_AGAIN: Span = Span::from_secs(20);

/// Looks that fail before the action makes room for others until its next try.
const BLIND_LOOKS: u32 = 4;

/// How often something is written that was acknowledged before, and is not there all the same: about a minute.
const LOST_WRITES: u32 = 8;

/// What is kept between two looks at the world.
struct Drive {
    memory: Memory,
    task: Option<Task>,
    /// The cluster's row is behind.
    stale: bool,
    flushed_at: Timestamp,
    /// Writes that were acknowledged and are not there.
    lost: u32,
    /// Looks in a row that showed nothing.
    blind: u32,
    /// Why it has not ended yet.
    waits_for: Vec<String>,
}

impl Drive {
    async fn reach(&mut self, run: &mut ActionRun) -> Result<(), Stop> {
        loop {
            run.check()?;
            let Some(seen) = self.look(run).await? else { continue };
            let task = match self.task.take() {
                Some(task) => task,
                None => Task::decide(run, &seen)?,
            };
            self.memory.called = task.called;
            let verdict = plan::plan(&task.goal, &seen, &self.memory, run.now());
            let task = self.task.insert(task).clone();
            match verdict {
                Verdict::Call => self.call(run, task).await?,
                Verdict::Acknowledged => self.acknowledge(run, &task, false).await?,
                Verdict::Wait(until, why) => self.wait(run, until, why).await?,
                Verdict::Reached => {
                    Self::settle(run, &task).await?;
                    if let Object::Present(spec) = &seen.object {
                        run.obstacles = plan::obstacles(run.subject.cluster.has_head, spec, &seen.members);
                    }
                    tell_of_old_ones(run, &task, &seen);
                    return Ok(());
                }
                Verdict::Unreachable(reasons) => return Err(Stop::Failed(reasons.join("; "))),
            }
        }
    }

    /// Looks, and writes into memory what is seen; none if nobody could tell.
    async fn look(&mut self, run: &mut ActionRun) -> Result<Option<Observed>, Stop> {
        match observe(run).await? {
            Ok(seen) => {
                self.blind = 0;
                self.mirror(run, &seen);
                Ok(Some(seen))
            }
            Err(error) if !error.transient => Err(Stop::Failed(error.message)),
            Err(error) => {
                self.blind += 1;
                tell_blindness(&error, self.blind);
                if self.blind > BLIND_LOOKS {
                    return Err(Stop::Requeue(error.message));
                }
                let until = run.now().after(run.context.config.retry_delay(self.blind));
                self.wait(run, Some(until), vec![error.message]).await?;
                Ok(None)
            }
        }
    }

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
        // What is to be made, for whom and under which name was recorded when it was accepted.
        if task.goal.write != Write::Create {
            self.commit(run, false).await?;
            run.check()?;
        }
        let intent = task.intend(&run.subject.cluster, &run.change)?;
        let old: Vec<MemberId> = task.goal.old.iter().cloned().collect();
        let victims: Vec<Node> = task.victims.iter().filter_map(|id| run.node(*id).cloned()).collect();
        let call = Call { cluster: &intent, ..run.call() };
        let written = async {
            match task.goal.write {
                Write::Create => run.provider.create(call).await,
                Write::Update => run.provider.update(call, &run.subject.cluster, &victims).await,
                Write::RestartHead => run.provider.restart_head(call, &old).await,
                Write::Delete => run.provider.delete(call).await,
                Write::Nothing => Ok(()),
            }
        };
        match run.call_provider(written).await? {
            Ok(()) => self.acknowledge(run, &task, true).await,
            Err(error) => {
                if error.transient {
                    // Whoever waits for it sees why it takes so long.
                    run.subject.cluster.status_reason.clone_from(&error.message);
                    self.stale = true;
                }
                Err(error.into())
            }
        }
    }

    /// The commit that makes the row say what the object says, with a place for each member that is still to come.
    async fn acknowledge(&mut self, run: &mut ActionRun, task: &Task, called: bool) -> Result<(), Stop> {
        if self.memory.acknowledged {
            // Acknowledged before, and lost. Should that happen again, the next try waits.
            self.lost += 1;
            if self.lost >= LOST_WRITES {
                let times = self.lost + 1;
                return Err(Stop::Failed(format!("it was acknowledged {times} times, and is not there")));
            }
            self.memory.not_before = Some(run.now().after(run.context.config.retry_delay(self.lost)));
            return Ok(());
        }
        self.memory.acknowledged = true;
        run.subject.cluster = task.intend(&run.subject.cluster, &run.change)?;
        if task.goal.recipe {
            // What is seen next is what was just written.
            run.subject.cluster.observed.made.clear();
        }
        if called {
            run.subject.cluster.observed.fence = run.subject.cluster.observed.fence.max(run.action.fence);
        }
        add_placeholders(run, task);
        task.keep(run);
        self.stale = true;
        // What it came to so far goes with the same commit.
        if let Ok(seen) = observe(run).await? {
            self.mirror(run, &seen);
            if let Verdict::Wait(_, why) = plan::plan(&task.goal, &seen, &self.memory, run.now()) {
                self.note(run, why);
            }
        }
        self.commit(run, true).await
    }

    /// Says in the row why it has not ended yet.
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

    /// What was only needed until now is taken away.
    async fn settle(run: &ActionRun, task: &Task) -> Result<(), Stop> {
        if task.victims.is_empty() || task.called.is_none() {
            return Ok(());
        }
        match run.call_provider(run.provider.settle(run.call())).await? {
            Ok(()) => Ok(()),
            Err(error) if error.transient => Err(error.into()),
            Err(error) => {
                // The goal is reached; what is left over does no harm.
                tracing::warn!(%error, "cannot settle");
                Ok(())
            }
        }
    }

    /// Waits until the world tells of a change, a retry is due, or nothing was heard for a while. What was seen is
    /// written first, but not after every single member.
    async fn wait(
        &mut self,
        run: &mut ActionRun,
        until: Option<Timestamp>,
        why: Vec<String>,
    ) -> Result<(), Stop> {
        self.note(run, why);
        let behind = self.stale
            || !(run.journal.dirty.is_empty()
                && run.journal.gone.is_empty()
                && run.journal.events.is_empty());
        let due = self.flushed_at.after(run.context.config.flush_period);
        let mut left = until.map_or(LOOK_AGAIN, |until| until.since(run.now()).min(LOOK_AGAIN));
        if behind && due <= run.now() {
            self.commit(run, false).await?;
        } else if behind {
            left = left.min(due.since(run.now()));
        }
        let wait = async {
            tokio::select! {
                stop = run.interrupted() => Err(stop),
                () = run.world.changed_since(run.observed_version) => Ok(()),
                () = tokio::time::sleep(Duration::from(left)) => Ok(()),
            }
        };
        run.yield_slot_while(wait).await
    }
}

/// How its object and its members are.
async fn observe(run: &mut ActionRun) -> Result<Result<Observed, ProviderError>, Stop> {
    run.observed_version = run.world.version();
    // Members are recognised by their identities: the rows add nothing to a look.
    let seen = run.call_provider(run.provider.observe(run.call(), &[])).await?;
    Ok(seen.map(|seen| mirror_events::identified(&run.subject.cluster, seen)))
}

/// A row for each member that was asked for and has not been seen, so that it has an id.
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
        for _ in present..group.desired {
            let index = run.subject.cluster.next_index;
            run.subject.cluster.next_index = index.saturating_add(1);
            new.push(naming::worker(&run.subject.cluster, &group.name, index, now));
        }
    }
    run.add_new_nodes(new);
}

/// Where an operator leaves running members alone, somebody has to know that they are old.
fn tell_of_old_ones(run: &mut ActionRun, task: &Task, seen: &Observed) {
    if !task.goal.recipe || task.goal.rolled || task.goal.complete == Complete::All {
        return;
    }
    // Not all that they are made from can be told by looking at them, such as variables.
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
