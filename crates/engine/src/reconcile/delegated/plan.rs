//! Decides the next step for a delegated cluster. Pure: the same inputs give the same step.

use std::collections::HashSet;

use muster_core::action::Fence;
use muster_core::node::{NodeRole, Observation};
use muster_core::time::Timestamp;

use crate::action_data::GroupSizes;
use crate::ports::provider::{
    Bounds, MemberId, ObjectSpec, ObjectState, Observed, ObservedGroup, ObservedMember,
};
use crate::reconcile::reasons::distinct;
use crate::run::summarize;

/// The write that an action makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// No write: the action only observes.
    Nothing,
    /// Creates the object.
    Create,
    /// Changes the content of the object.
    Update,
    /// Replaces the head.
    RestartHead,
    /// Deletes the object.
    Delete,
}

/// The members that an action waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitScope {
    /// The head and all groups.
    All,
    /// The workers of these groups.
    Groups(Vec<String>),
}

/// The goal of an action on a delegated cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by name, and none implies another")]
pub(crate) struct WriteGoal {
    pub(crate) write: Write,
    /// The sizes to write.
    pub(crate) wanted: Vec<GroupSizes>,
    /// True if more than sizes is written: shapes, images, environments.
    pub(crate) recipe: bool,
    /// True if the head's recipe changes too.
    pub(crate) head: bool,
    /// The members that the action waits for.
    pub(crate) complete: WaitScope,
    /// Incarnations of members that have to be replaced.
    pub(crate) old: HashSet<MemberId>,
    /// Workers that are replaced one after the other, each once all others work.
    pub(crate) replaced: Vec<MemberId>,
    /// True if the operator replaces outdated members, and the action waits for that.
    pub(crate) rolled: bool,
    /// True if the cluster has a head.
    pub(crate) has_head: bool,
    /// True if the object was never observed, because its creation failed before.
    pub(crate) unmade: bool,
}

impl WriteGoal {
    /// Returns true if a later change waits only until this goal is written, not until it is reached.
    pub(crate) const fn may_be_superseded(&self) -> bool {
        !matches!(self.write, Write::Delete)
    }

    /// Creates a goal that writes nothing.
    pub(crate) fn observing(complete: WaitScope) -> Self {
        Self {
            write: Write::Nothing,
            wanted: Vec::new(),
            recipe: false,
            head: false,
            complete,
            old: HashSet::new(),
            replaced: Vec::new(),
            rolled: false,
            has_head: false,
            unmade: false,
        }
    }
}

/// The progress of an action's write between two observations.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteProgress {
    /// The fence of the action's first write, recorded before it: every write of this action has this fence or a higher
    /// one.
    pub(crate) called: Option<Fence>,
    /// True if the write was acknowledged, or was not needed.
    pub(crate) acknowledged: bool,
    /// The time before which an acknowledged write that got lost is not retried.
    pub(crate) not_before: Option<Timestamp>,
    /// The worker whose replacement was requested last, and the time of the next attempt.
    pub(crate) replacing: Option<(MemberId, Timestamp)>,
}

/// The next step, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ObjectVerdict {
    /// Call the provider.
    Call,
    /// Let the operator replace this worker.
    Replace(MemberId),
    /// Record that the object has the wanted content.
    Acknowledged,
    /// Nothing can be done now, for these reasons: observe again when something changes, or at this time.
    Wait(Option<Timestamp>, Vec<String>),
    /// The goal is reached.
    Reached,
    /// The goal cannot be reached, for these reasons.
    Unreachable(Vec<String>),
}

/// Decides the next step.
pub(crate) fn plan(
    goal: &WriteGoal,
    observed: &Observed,
    progress: &WriteProgress,
    now: Timestamp,
) -> ObjectVerdict {
    let spec = match &observed.object {
        ObjectState::Unknown => {
            return ObjectVerdict::Wait(None, vec!["its state is unknown".to_owned()]);
        }
        ObjectState::Absent => return without_object(goal, observed, progress, now),
        ObjectState::Present(spec) => spec,
    };
    if spec.leaving && goal.write != Write::Delete {
        return unreachable("the cluster is being deleted elsewhere");
    }
    let step = match goal.write {
        Write::Nothing => None,
        Write::Create if (spec.unfinished || !spec.missing.is_empty()) && !progress.acknowledged => {
            Some(call(progress, now))
        }
        Write::Create => (!progress.acknowledged).then_some(ObjectVerdict::Acknowledged),
        Write::Update | Write::RestartHead if !spec.missing.is_empty() && !progress.acknowledged => {
            Some(call(progress, now))
        }
        Write::Update => update(goal, spec, progress, now),
        Write::RestartHead => restart(goal, &observed.members, progress, now),
        Write::Delete if !spec.leaving => Some(call(progress, now)),
        Write::Delete if progress.acknowledged => {
            let what = "the object still exists".to_owned();
            Some(ObjectVerdict::Wait(None, std::iter::once(what).chain(spec.pending.clone()).collect()))
        }
        Write::Delete => Some(ObjectVerdict::Acknowledged),
    };
    if let Some(step) = step {
        return step;
    }
    // A worker that does not work loses nothing by its replacement, and may never work with its older recipe.
    if let Some(replacement) = replace_next(goal, &observed.members, is_broken, progress, now) {
        return replacement;
    }
    let missing = missing(goal, spec, &observed.members);
    if missing.is_empty() {
        replace_next(goal, &observed.members, |_| true, progress, now).unwrap_or(ObjectVerdict::Reached)
    } else if spec.refused.is_empty() {
        ObjectVerdict::Wait(None, missing.into_iter().chain(spec.pending.clone()).collect())
    } else {
        ObjectVerdict::Unreachable(spec.refused.clone())
    }
}

fn without_object(
    goal: &WriteGoal,
    observed: &Observed,
    progress: &WriteProgress,
    now: Timestamp,
) -> ObjectVerdict {
    match goal.write {
        Write::Create if !progress.acknowledged => call(progress, now),
        Write::Create => unreachable("the cluster was deleted elsewhere"),
        Write::Delete if observed.members.is_empty() && observed.remaining.is_empty() => {
            ObjectVerdict::Reached
        }
        Write::Delete => ObjectVerdict::Wait(None, left(observed)),
        Write::Nothing if goal.complete == WaitScope::Groups(Vec::new()) => ObjectVerdict::Reached,
        _ if goal.unmade => {
            unreachable("it does not exist, because its creation failed: recover or delete it")
        }
        _ => unreachable("the cluster was deleted elsewhere"),
    }
}

/// Describes the leftovers of a deleted object.
fn left(observed: &Observed) -> Vec<String> {
    let members = &observed.members;
    let verb = if members.len() == 1 { "exists" } else { "exist" };
    let still =
        (!members.is_empty()).then(|| format!("{} still {verb}{}", names(members), why(members.iter())));
    still.into_iter().chain(observed.remaining.clone()).collect()
}

fn unreachable(why: &str) -> ObjectVerdict {
    ObjectVerdict::Unreachable(vec![why.to_owned()])
}

fn call(progress: &WriteProgress, now: Timestamp) -> ObjectVerdict {
    match progress.not_before.filter(|moment| *moment > now) {
        Some(moment) => ObjectVerdict::Wait(Some(moment), Vec::new()),
        None => ObjectVerdict::Call,
    }
}

/// Decides on an update: a write, its acknowledgement, or the reason why the object cannot reach the wanted content.
fn update(
    goal: &WriteGoal,
    spec: &ObjectSpec,
    progress: &WriteProgress,
    now: Timestamp,
) -> Option<ObjectVerdict> {
    let mut differences = Vec::new();
    for wanted in &goal.wanted {
        let Some(group) = spec.groups.iter().find(|group| group.name == wanted.group) else {
            return Some(unreachable(&format!("group '{}' no longer exists", wanted.group)));
        };
        if group.autoscaled && wanted.desired.is_some() {
            return Some(unreachable(&scaled_by_autoscaler(&group.name)));
        }
        differences.extend(difference(wanted, group));
    }
    // The fence distinguishes a lost write from one that was changed elsewhere since.
    let landed = progress.called.is_some_and(|fence| spec.fence >= fence);
    match (progress.acknowledged, landed) {
        (false, false) if goal.recipe || !differences.is_empty() => Some(call(progress, now)),
        (false, _) => Some(ObjectVerdict::Acknowledged),
        (true, false) if progress.called.is_some() => Some(call(progress, now)),
        (true, _) if differences.is_empty() => None,
        (true, _) => Some(ObjectVerdict::Unreachable(
            differences.into_iter().map(|what| format!("changed elsewhere: {what}")).collect(),
        )),
    }
}

pub(crate) fn scaled_by_autoscaler(group: &str) -> String {
    format!("group '{group}' is scaled by its autoscaler: change its bounds, not its size")
}

fn difference(wanted: &GroupSizes, group: &ObservedGroup) -> Option<String> {
    let desired = wanted.desired.is_some_and(|desired| desired != group.desired || group.floor_differs);
    // An object without bounds cannot differ in them.
    let bounds = wanted.bounds.is_some() && group.bounds.is_some() && wanted.bounds != group.bounds;
    (desired || bounds).then(|| {
        let bounds = group.bounds.map_or_else(String::new, |Bounds { min, max }| {
            let max = max.map_or_else(|| "no max".to_owned(), |max| format!("max {max}"));
            format!(", min {min}, {max}")
        });
        format!("group '{}' now has desired size {}{bounds}", group.name, group.desired)
    })
}

/// Decides on a restart: a call while there is an old incarnation that is not being removed, else its acknowledgement.
fn restart(
    goal: &WriteGoal,
    members: &[ObservedMember],
    progress: &WriteProgress,
    now: Timestamp,
) -> Option<ObjectVerdict> {
    let stays = members.iter().any(|member| !member.leaving && goal.old.contains(&member.id));
    let no_head = !members.iter().any(|member| member.role == NodeRole::Head);
    if stays || (no_head && !progress.acknowledged) {
        Some(call(progress, now))
    } else {
        (!progress.acknowledged).then_some(ObjectVerdict::Acknowledged)
    }
}

/// Returns true for a member that certainly does not work now, and is not being removed.
fn is_broken(member: &ObservedMember) -> bool {
    let may_work = matches!(member.observation, Observation::Running { .. } | Observation::Unknown { .. });
    !may_work && !member.leaving
}

/// Returns the replacement of the next worker that fits: of those that work one after the other, once all members work.
fn replace_next(
    goal: &WriteGoal,
    members: &[ObservedMember],
    fits: impl Fn(&ObservedMember) -> bool,
    progress: &WriteProgress,
    now: Timestamp,
) -> Option<ObjectVerdict> {
    let is_there = |id: &&MemberId| members.iter().any(|member| member.id == **id && fits(member));
    let next = goal.replaced.iter().find(is_there)?;
    match &progress.replacing {
        // The deletion of this worker has not been observed yet.
        Some((requested, again)) if requested == next && *again > now => {
            Some(ObjectVerdict::Wait(Some(*again), vec!["a worker is being replaced".to_owned()]))
        }
        _ => Some(ObjectVerdict::Replace(next.clone())),
    }
}

/// Returns messages about all members that differ from the object.
fn missing(goal: &WriteGoal, spec: &ObjectSpec, members: &[ObservedMember]) -> Vec<String> {
    let mut missing = Vec::new();
    // If the operator replaces the head for its new recipe, the new head has to work.
    let replaces_head = goal.head && goal.rolled;
    if goal.has_head && (goal.complete == WaitScope::All || replaces_head) {
        let head = members.iter().find(|member| member.role == NodeRole::Head && !member.leaving);
        match head {
            Some(head) if works(head) => {}
            Some(head) => missing.push(format!("the head does not work yet{}", why([head].into_iter()))),
            None => missing.push("the head does not exist yet".to_owned()),
        }
    }
    for group in &spec.groups {
        let concerned = match &goal.complete {
            WaitScope::All => true,
            WaitScope::Groups(names) => names.contains(&group.name),
        };
        if concerned {
            missing.extend(missing_of(group, members));
        }
    }
    let old =
        members.iter().filter(|member| goal.old.contains(&member.id) || (goal.rolled && member.outdated));
    let old: Vec<ObservedMember> = old.cloned().collect();
    if !old.is_empty() {
        missing.push(format!("not replaced yet: {}", names(&old)));
    }
    missing
}

/// Returns messages about everything that keeps a cluster from its goal.
pub(crate) fn obstacles(has_head: bool, spec: &ObjectSpec, members: &[ObservedMember]) -> Vec<String> {
    let goal = WriteGoal { has_head, ..WriteGoal::observing(WaitScope::All) };
    let missing = missing(&goal, spec, members).into_iter();
    missing.chain(taken_away(spec)).chain(spec.refused.clone()).chain(spec.pending.clone()).collect()
}

/// Describes the parts that were deleted elsewhere, and the way to restore them.
fn taken_away(spec: &ObjectSpec) -> Option<String> {
    let what = spec.missing.join(", ");
    // If the operator refuses the object, its refusal names the remedy.
    let how =
        if spec.refused.is_empty() { ": recover, restart or scale the cluster to recreate it" } else { "" };
    (!what.is_empty()).then(|| format!("{what} was deleted{how}"))
}

fn missing_of(group: &ObservedGroup, members: &[ObservedMember]) -> Option<String> {
    let own = || {
        members
            .iter()
            .filter(|member| member.role == NodeRole::Worker && member.group.as_deref() == Some(&group.name))
    };
    let stay = own().filter(|member| !member.leaving).count();
    let work = own().filter(|member| !member.leaving && works(member)).count();
    let wanted = usize::try_from(group.desired).unwrap_or(usize::MAX);
    let leave = own().filter(|member| member.leaving).count();
    let name = &group.name;
    if work < wanted {
        let idle = own().filter(|member| !member.leaving && !works(member));
        Some(format!("group '{name}': {work} of {wanted} workers work{}", why(idle)))
    } else if stay > wanted {
        Some(format!("group '{name}': {stay} workers instead of {wanted}"))
    } else if leave > 0 {
        Some(format!("group '{name}': {leave} workers are being removed"))
    } else {
        None
    }
}

fn works(member: &ObservedMember) -> bool {
    matches!(member.observation, Observation::Running { .. })
}

/// The most members that a message names; there may be thousands.
const NAMED: usize = 3;

fn why<'m>(members: impl Iterator<Item = &'m ObservedMember>) -> String {
    let reason = |member: &'m ObservedMember| match &member.observation {
        Observation::Exited { reason } | Observation::Unknown { reason } => reason.as_str(),
        _ => member.reason.as_str(),
    };
    let reasons = distinct(members.map(|member| (member.name.as_str(), reason(member))));
    if reasons.is_empty() { String::new() } else { format!(" ({})", summarize(&reasons)) }
}

fn names(members: &[ObservedMember]) -> String {
    let mut names: Vec<&str> = members.iter().take(NAMED).map(|member| member.name.as_str()).collect();
    if members.len() > NAMED {
        names.push("…");
    }
    names.join(", ")
}

#[cfg(test)]
mod tests;
