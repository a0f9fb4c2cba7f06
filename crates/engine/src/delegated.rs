//! Clusters whose members an operator makes: one object is the spec of record, and the rows mirror it.
//!
//! An action looks, decides once, records that, writes once under its fence, and waits until the members are seen. The
//! row changes with the commit that says the write was acknowledged, or when somebody else's change is seen.

mod discovery;
mod leftover;
mod mirror;
mod observer;
mod plan;
mod refusal;
mod task;

use std::collections::HashSet;
use std::time::Duration;

use muster_core::action::ActionKind;
use muster_core::event::Level;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole};
use muster_core::time::{Span, Timestamp};

use crate::events::{self, reason};
use crate::handlers::provider_failed;
use crate::members::tell_blindness;
use crate::naming;
use crate::provider::{Call, MemberId, Object, Observed, ProviderError, SeenMember};
use crate::work::{Stop, Work};
use mirror::Mirror;
use plan::{Complete, Memory, Verdict, Write};
use task::Task;

pub(crate) use discovery::discover;
pub(crate) use leftover::remove_leftover;
pub(crate) use observer::look_at;
pub(crate) use refusal::refusal;

/// Works until the goal of the action is seen.
pub(crate) async fn run(work: &mut Work) -> Result<(), Stop> {
    let mut drive = Drive {
        memory: Memory { acknowledged: work.action.applied_at.is_some(), ..Memory::default() },
        task: Task::kept(work),
        stale: false,
        flushed_at: work.now(),
        lost: 0,
        blind: 0,
        waits_for: Vec::new(),
    };
    match drive.reach(work).await {
        Ok(()) => Ok(()),
        Err(Stop::TimedOut) if !drive.waits_for.is_empty() => {
            let (seconds, why) = (work.action.timeout.secs(), drive.waits_for.join("; "));
            Err(Stop::Failed(format!("TIMEOUT: it did not end within {seconds} seconds: {why}")))
        }
        Err(stop) => {
            if drive.stale && matches!(stop, Stop::HandOver | Stop::Suspended | Stop::NotNow(_)) {
                // Events that were told go with the row that they are about.
                drive.commit(work, false).await?;
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
    async fn reach(&mut self, work: &mut Work) -> Result<(), Stop> {
        loop {
            work.check()?;
            let Some(seen) = self.look(work).await? else { continue };
            let task = match self.task.take() {
                Some(task) => task,
                None => Task::decide(work, &seen)?,
            };
            self.memory.called = task.called;
            let verdict = plan::plan(&task.goal, &seen, &self.memory, work.now());
            let task = self.task.insert(task).clone();
            match verdict {
                Verdict::Call => self.call(work, task).await?,
                Verdict::Acknowledged => self.acknowledge(work, &task, false).await?,
                Verdict::Wait(until, why) => self.wait(work, until, why).await?,
                Verdict::Reached => {
                    Self::settle(work, &task).await?;
                    if let Object::Present(spec) = &seen.object {
                        work.obstacles = plan::obstacles(work.cluster.has_head, spec, &seen.members);
                    }
                    tell_of_old_ones(work, &task, &seen);
                    return Ok(());
                }
                Verdict::Unreachable(reasons) => return Err(Stop::Failed(reasons.join("; "))),
            }
        }
    }

    /// Looks, and writes into memory what is seen; none if nobody could tell.
    async fn look(&mut self, work: &mut Work) -> Result<Option<Observed>, Stop> {
        match observe(work).await? {
            Ok(seen) => {
                self.blind = 0;
                self.mirror(work, &seen);
                Ok(Some(seen))
            }
            Err(error) if !error.transient => Err(Stop::Failed(error.message)),
            Err(error) => {
                self.blind += 1;
                tell_blindness(&error, self.blind);
                if self.blind > BLIND_LOOKS {
                    return Err(Stop::NotNow(error.message));
                }
                let until = work.now().after(work.inner.config.pause(self.blind));
                self.wait(work, Some(until), vec![error.message]).await?;
                Ok(None)
            }
        }
    }

    fn mirror(&mut self, work: &mut Work, seen: &Observed) {
        let spec = match &seen.object {
            Object::Unknown => return,
            Object::Absent => None,
            Object::Present(spec) => Some(spec),
        };
        let deletes = work.action.kind == ActionKind::ClusterDelete;
        let expected = |node: &Node| deletes || self.task.as_ref().is_some_and(|task| task.expects(node));
        let mirror = mirror::mirror(&work.cluster, &work.nodes, seen, spec, expected, work.now());
        self.take_in(work, mirror);
    }

    fn take_in(&mut self, work: &mut Work, mirror: Mirror) {
        if mirror.is_same_as(&work.cluster) {
            return;
        }
        let Mirror { cluster, new, changed, gone, told } = mirror;
        let events = observer::tell(Some(&work.action), &cluster, told, work.now());
        work.events.extend(events);
        work.cluster = cluster;
        self.stale = true;
        for node in changed {
            if let Some(row) = work.node_mut(node.id) {
                *row = node;
            }
        }
        add(work, new);
        let gone: HashSet<NodeId> = gone.into_iter().collect();
        // A row that was never written needs no removal.
        let written = gone.iter().filter(|id| !work.unborn.contains(id)).copied();
        work.gone.extend(written.collect::<Vec<_>>());
        if !gone.is_empty() {
            work.remove_nodes(&gone);
        }
    }

    /// Records what is about to be written and under which fence, then writes it.
    async fn call(&mut self, work: &mut Work, mut task: Task) -> Result<(), Stop> {
        task.called = task.called.or(Some(work.action.fence));
        task.keep(work);
        let task = self.task.insert(task).clone();
        // What is to be made, for whom and under which name was recorded when it was accepted.
        if task.goal.write != Write::Create {
            self.commit(work, false).await?;
            work.check()?;
        }
        let intent = task.intend(&work.cluster, &work.action)?;
        let old: Vec<MemberId> = task.goal.old.iter().cloned().collect();
        let victims: Vec<Node> = task.victims.iter().filter_map(|id| work.node(*id).cloned()).collect();
        let call = Call { cluster: &intent, ..work.call() };
        let written = async {
            match task.goal.write {
                Write::Create => work.provider.create(call).await,
                Write::Update => work.provider.update(call, &work.cluster, &victims).await,
                Write::RestartHead => work.provider.restart_head(call, &old).await,
                Write::Delete => work.provider.delete(call).await,
                Write::Nothing => Ok(()),
            }
        };
        match work.call_provider(written).await? {
            Ok(()) => self.acknowledge(work, &task, true).await,
            Err(error) => {
                if error.transient {
                    // Whoever waits for it sees why it takes so long.
                    work.cluster.status_reason.clone_from(&error.message);
                    self.stale = true;
                }
                Err(provider_failed(error))
            }
        }
    }

    /// The commit that makes the row say what the object says, with a place for each member that is still to come.
    async fn acknowledge(&mut self, work: &mut Work, task: &Task, called: bool) -> Result<(), Stop> {
        if self.memory.acknowledged {
            // Acknowledged before, and lost. Should that happen again, the next try waits.
            self.lost += 1;
            if self.lost >= LOST_WRITES {
                let times = self.lost + 1;
                return Err(Stop::Failed(format!("it was acknowledged {times} times, and is not there")));
            }
            self.memory.not_before = Some(work.now().after(work.inner.config.pause(self.lost)));
            return Ok(());
        }
        self.memory.acknowledged = true;
        work.cluster = task.intend(&work.cluster, &work.action)?;
        if task.goal.recipe {
            // What is seen next is what was just written.
            work.cluster.observed.made.clear();
        }
        if called {
            work.cluster.observed.fence = work.cluster.observed.fence.max(work.action.fence);
        }
        add_placeholders(work, task);
        task.keep(work);
        self.stale = true;
        // What it came to so far goes with the same commit.
        if let Ok(seen) = observe(work).await? {
            self.mirror(work, &seen);
            if let Verdict::Wait(_, why) = plan::plan(&task.goal, &seen, &self.memory, work.now()) {
                self.note(work, why);
            }
        }
        self.commit(work, true).await
    }

    /// Says in the row why it has not ended yet.
    fn note(&mut self, work: &mut Work, why: Vec<String>) {
        if !why.is_empty() && why != self.waits_for {
            work.cluster.status_reason = why.join("; ");
            self.waits_for = why;
            self.stale = true;
        }
    }

    async fn commit(&mut self, work: &mut Work, applied: bool) -> Result<(), Stop> {
        let mut record = work.pending();
        record.applied = applied;
        record.cluster = std::mem::take(&mut self.stale).then(|| work.cluster.clone());
        record.data = Some(work.data.clone().into());
        self.flushed_at = work.now();
        work.record(record).await
    }

    /// What was only needed until now is taken away.
    async fn settle(work: &Work, task: &Task) -> Result<(), Stop> {
        if task.victims.is_empty() || task.called.is_none() {
            return Ok(());
        }
        match work.call_provider(work.provider.settle(work.call())).await? {
            Ok(()) => Ok(()),
            Err(error) if error.transient => Err(provider_failed(error)),
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
        work: &mut Work,
        until: Option<Timestamp>,
        why: Vec<String>,
    ) -> Result<(), Stop> {
        self.note(work, why);
        let behind = self.stale || !(work.dirty.is_empty() && work.gone.is_empty() && work.events.is_empty());
        let due = self.flushed_at.after(work.inner.config.flush_period);
        let mut left = until.map_or(LOOK_AGAIN, |until| until.since(work.now()).min(LOOK_AGAIN));
        if behind && due <= work.now() {
            self.commit(work, false).await?;
        } else if behind {
            left = left.min(due.since(work.now()));
        }
        let wait = async {
            tokio::select! {
                stop = work.interrupted() => Err(stop),
                () = work.world.changed_since(work.looked) => Ok(()),
                () = tokio::time::sleep(Duration::from(left)) => Ok(()),
            }
        };
        work.without_hand(wait).await
    }
}

/// How its object and its members are.
async fn observe(work: &mut Work) -> Result<Result<Observed, ProviderError>, Stop> {
    work.looked = work.world.version();
    // Members are recognised by their identities: the rows add nothing to a look.
    let seen = work.call_provider(work.provider.observe(work.call(), &[])).await?;
    Ok(seen.map(|seen| observer::identified(&work.cluster, seen)))
}

fn add(work: &mut Work, nodes: Vec<Node>) {
    for node in &nodes {
        work.dirty.insert(node.id);
        work.unborn.insert(node.id);
    }
    work.add_nodes(nodes);
}

/// A row for each member that was asked for and has not been seen, so that it has an id.
fn add_placeholders(work: &mut Work, task: &Task) {
    let now = work.now();
    let creates = task.goal.write == Write::Create;
    let mut new = Vec::new();
    if creates && work.cluster.has_head && work.nodes.iter().all(|node| node.role != NodeRole::Head) {
        new.push(naming::head(&work.cluster, now));
    }
    for group in work.cluster.groups.clone() {
        let asked =
            task.goal.wanted.iter().any(|wanted| wanted.group == group.name && wanted.desired.is_some());
        if !(creates || asked) {
            continue;
        }
        let own = |node: &&Node| {
            node.group.as_ref() == Some(&group.name) && (mirror::stays(node) || mirror::is_placeholder(node))
        };
        let present = u32::try_from(work.nodes.iter().filter(own).count()).unwrap_or(u32::MAX);
        for _ in present..group.desired {
            let index = work.cluster.next_index;
            work.cluster.next_index = index.saturating_add(1);
            new.push(naming::worker(&work.cluster, &group.name, index, now));
        }
    }
    add(work, new);
}

/// Where an operator leaves running members alone, somebody has to know that they are old.
fn tell_of_old_ones(work: &mut Work, task: &Task, seen: &Observed) {
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
        Some(&work.action),
        &work.cluster,
        Level::Warn,
        reason::RESTART_NEEDED,
        &message,
        work.now(),
    );
    work.events.push(event);
}
