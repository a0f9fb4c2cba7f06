//! Removes members, after their grace period and the confirmations of hooks.

use std::collections::HashSet;

use muster_core::action::Action;
use muster_core::change::{Change, Delete};
use muster_core::ids::NodeId;
use muster_core::time::TimeSpan;

use crate::action_data::ActionData;
use crate::actions::hooks::HookWaiting;
use crate::intent::victims;
use crate::reconcile::individual::{self, Goal};
use crate::run::{ActionRun, Stop, succeeded, summarize};

/// Returns true if a policy wants removed members deleted, false if it wants them to become orphans; none if no policy
/// decides.
pub(crate) fn destroys(data: &ActionData) -> Option<bool> {
    data.deletion.as_ref().and_then(|deletion| deletion.destroy_after_deletion)
}

/// The members to remove, and the way of their removal.
pub(crate) struct Leaving {
    pub(crate) nodes: HashSet<NodeId>,
    /// True if the members are deleted; otherwise they become orphans.
    pub(crate) destroy: bool,
    /// True if missing members are started.
    pub(crate) start: bool,
    /// True if the changed cluster is not committed yet.
    pub(crate) intent: bool,
}

/// Deletes members or turns them into orphans, after their grace period and, if there is a hook, its confirmations.
pub(crate) async fn remove(run: &mut ActionRun, leaving: Leaving) -> Result<(), Stop> {
    let Leaving { nodes, destroy, start, intent } = leaving;
    let mut new_intent = prepare(run, &nodes, intent).await?;
    if let Some(wait) = run.data.hooks.clone().filter(|_| !nodes.is_empty()) {
        let change = if destroy { Change::DeleteNode(Delete::default()) } else { Change::LeaveNode };
        let intent = std::mem::take(&mut new_intent);
        let waiting = HookWaiting::begin(run, wait, change, &nodes, intent).await?;
        remove_as_allowed(run, waiting, destroy).await?;
    } else if destroy {
        return individual::reconcile(run, &Goal { leaving: nodes, start, new_intent, ..Goal::default() })
            .await;
    } else if !nodes.is_empty() {
        orphan_members(run, &nodes, std::mem::take(&mut new_intent)).await?;
    }
    if start || new_intent {
        return individual::reconcile(run, &Goal { start, new_intent, keep_size: !start, ..Goal::default() })
            .await;
    }
    Ok(())
}

/// Removes members as the hook's receiver confirms them; the failure of a member does not stop the others.
async fn remove_as_allowed(run: &mut ActionRun, mut waiting: HookWaiting, destroy: bool) -> Result<(), Stop> {
    let mut failures = Vec::new();
    loop {
        let leaving = waiting.next(run).await?;
        if leaving.is_empty() {
            break;
        }
        if !destroy {
            orphan_members(run, &leaving, false).await?;
            continue;
        }
        match individual::reconcile(run, &Goal { leaving, keep_size: true, ..Goal::default() }).await {
            Ok(()) => run.flush().await?,
            Err(Stop::Failed(why)) => failures.push(why),
            Err(stop) => return Err(stop),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Stop::Failed(summarize(&failures))) }
}

/// Records which members are removed, and waits for their grace period. Returns true if the intent still has to be
/// committed.
pub(crate) async fn prepare(
    run: &mut ActionRun,
    leaving: &HashSet<NodeId>,
    mut intent: bool,
) -> Result<bool, Stop> {
    if leaving.is_empty() {
        return Ok(intent);
    }
    record_victims(&run.action, &run.change, &mut run.data, leaving);
    let deletion = run.data.deletion();
    let (grace, began) = (deletion.grace(), deletion.grace_began);
    if grace > TimeSpan::default() {
        let began = match began {
            Some(began) => began,
            None => {
                let now = run.now();
                run.data.deletion().grace_began = Some(now);
                run.commit(std::mem::take(&mut intent)).await?;
                now
            }
        };
        run.control.pause_until(began.after(grace)).await?;
    }
    Ok(intent)
}

/// Records which members are removed, so that an engine that takes over removes the same ones.
pub(crate) fn record_victims(
    action: &Action,
    change: &Change,
    data: &mut ActionData,
    leaving: &HashSet<NodeId>,
) {
    let mut ids: Vec<NodeId> = leaving.iter().copied().collect();
    ids.sort_unstable();
    let known = victims::chosen(change, data);
    // Keep the order of the choice. Once the action has begun, members that are gone already stay listed.
    let rest = ids.into_iter().filter(|id| !known.contains(id)).collect::<Vec<_>>();
    let begun = action.applied_at.is_some();
    let victims: Vec<NodeId> =
        known.into_iter().filter(|id| begun || leaving.contains(id)).chain(rest).collect();
    data.deletion().choose(victims);
}

/// Turns members into orphans: only rows change.
async fn orphan_members(run: &mut ActionRun, leaving: &HashSet<NodeId>, intent: bool) -> Result<(), Stop> {
    let (ids, now): (Vec<NodeId>, _) = (leaving.iter().copied().collect(), run.now());
    let children = run.children.begin_all(&Change::LeaveNode, &ids, now);
    for id in &ids {
        run.children.end(*id, succeeded("Node successfully left cluster."));
    }
    run.subject.nodes.orphan(leaving, now);
    run.commit_with(children, intent).await
}
