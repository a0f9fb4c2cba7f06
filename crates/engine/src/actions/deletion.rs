//! How members go: what policies said about it, and the wait before.

use std::collections::HashSet;

use muster_core::change::{Change, Delete};
use muster_core::ids::NodeId;
use muster_core::time::Span;

use crate::actions::hooks::Waiting;
use crate::reconcile::individual::Goal;
use crate::run::{ActionRun, Stop};
use crate::run::{succeeded, summarize};

/// The members that policies chose, or else the request names, to be removed first.
pub(crate) fn chosen(run: &ActionRun) -> Vec<NodeId> {
    let decided = run.data.deletion.as_ref().and_then(|deletion| deletion.candidates.clone());
    decided.or_else(|| named(&run.change)).unwrap_or_default()
}

/// Members that a resize names; other changes say which members they are about in their own way.
fn named(change: &Change) -> Option<Vec<NodeId>> {
    matches!(change, Change::Resize(_) | Change::ScaleIn(_)).then(|| change.named_victims()).flatten()
}

/// Whether a policy wants removed members deleted, or left without a cluster; none if no policy says.
pub(crate) fn destroys(run: &ActionRun) -> Option<bool> {
    run.data.deletion.as_ref().and_then(|deletion| deletion.destroy_after_deletion)
}

/// Members that go, and how.
pub(crate) struct Leaving {
    pub(crate) nodes: HashSet<NodeId>,
    /// They end; otherwise they become orphans.
    pub(crate) destroy: bool,
    /// What is missing of the others comes back.
    pub(crate) start: bool,
    /// The cluster's row is behind.
    pub(crate) intent: bool,
}

/// Brings a cluster to its size: members that are too many go, what is missing comes.
pub(crate) async fn reach_size(
    run: &mut ActionRun,
    nodes: HashSet<NodeId>,
    intent: bool,
) -> Result<(), Stop> {
    let destroy = destroys(run).unwrap_or(true) || !run.subject.capabilities.orphans;
    remove(run, Leaving { nodes, destroy, start: true, intent }).await
}

/// Lets members go.
pub(crate) async fn remove(run: &mut ActionRun, leaving: Leaving) -> Result<(), Stop> {
    let Leaving { nodes, destroy, start, intent } = leaving;
    let mut new_intent = prepare(run, &nodes, intent).await?;
    if let Some(wait) = run.data.hooks.clone().filter(|_| !nodes.is_empty()) {
        let change = if destroy { Change::DeleteNode(Delete::default()) } else { Change::LeaveNode };
        let intent = std::mem::take(&mut new_intent);
        let waiting = Waiting::begin(run, wait, change, &nodes, intent).await?;
        remove_as_allowed(run, waiting, destroy).await?;
    } else if destroy {
        return run.reach(&Goal { leaving: nodes, start, new_intent, ..Goal::default() }).await;
    } else if !nodes.is_empty() {
        run.let_go(&nodes, std::mem::take(&mut new_intent)).await?;
    }
    if start || new_intent {
        return run.reach(&Goal { start, new_intent, keep_size: !start, ..Goal::default() }).await;
    }
    Ok(())
}

/// Members go as somebody lets them; one that cannot does not keep the others.
async fn remove_as_allowed(run: &mut ActionRun, mut waiting: Waiting, destroy: bool) -> Result<(), Stop> {
    let mut failures = Vec::new();
    loop {
        let leaving = waiting.next(run).await?;
        if leaving.is_empty() {
            break;
        }
        if !destroy {
            run.let_go(&leaving, false).await?;
            continue;
        }
        match run.reach(&Goal { leaving, keep_size: true, ..Goal::default() }).await {
            Ok(()) => run.flush().await?,
            Err(Stop::Failed(why)) => failures.push(why),
            Err(stop) => return Err(stop),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Stop::Failed(summarize(&failures))) }
}

/// Keeps with the action who goes, and waits where they are given time; whether the intent is still to be written.
pub(crate) async fn prepare(
    run: &mut ActionRun,
    leaving: &HashSet<NodeId>,
    mut intent: bool,
) -> Result<bool, Stop> {
    if leaving.is_empty() {
        return Ok(intent);
    }
    note(run, leaving);
    let deletion = run.data.deletion();
    let (grace, began) = (deletion.grace(), deletion.grace_began);
    if grace > Span::default() {
        let began = match began {
            Some(began) => began,
            None => {
                let now = run.now();
                run.data.deletion().grace_began = Some(now);
                run.commit(std::mem::take(&mut intent)).await?;
                now
            }
        };
        run.pause_until(began.after(grace)).await?;
    }
    Ok(intent)
}

/// Who goes is kept with the action, whoever asks later; an action that is taken over lets the same ones go.
pub(crate) fn note(run: &mut ActionRun, leaving: &HashSet<NodeId>) {
    let mut ids: Vec<NodeId> = leaving.iter().copied().collect();
    ids.sort_unstable();
    let known = chosen(run);
    // In the order in which they were chosen; what is gone already stays named.
    let rest = ids.into_iter().filter(|id| !known.contains(id)).collect::<Vec<_>>();
    let begun = run.action.applied_at.is_some();
    let victims: Vec<NodeId> =
        known.into_iter().filter(|id| begun || leaving.contains(id)).chain(rest).collect();
    run.data.deletion().choose(victims);
}

impl ActionRun {
    /// Members become orphans: a change of rows, and of nothing else.
    async fn let_go(&mut self, leaving: &HashSet<NodeId>, intent: bool) -> Result<(), Stop> {
        let ids: Vec<NodeId> = leaving.iter().copied().collect();
        let children = self.children_for(&Change::LeaveNode, &ids);
        for id in &ids {
            self.end_child(*id, succeeded("Node successfully left cluster."));
        }
        self.move_out(leaving);
        self.commit_with(children, intent).await
    }
}
