//! The next step for a delegated cluster. Pure: the same inputs give the same answer.

use std::collections::HashSet;

use muster_core::action::Fence;
use muster_core::node::{NodeRole, Seen};
use muster_core::time::Timestamp;

use crate::action_data::GroupSizes;
use crate::ports::provider::{Bounds, MemberId, Object, Observed, SeenGroup, SeenMember, Spec};
use crate::reconcile::reasons::distinct;
use crate::run::summarize;

/// What an action writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// Nothing: it only observes.
    Nothing,
    /// The object itself.
    Create,
    /// The content of the object.
    Update,
    /// A new head.
    RestartHead,
    /// The deletion of the object.
    Delete,
}

/// Whose members are waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Complete {
    /// The head and all groups.
    All,
    /// These groups.
    Groups(Vec<String>),
}

/// The goal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by name, and none implies another")]
pub(crate) struct Goal {
    pub(crate) write: Write,
    /// The wanted sizes.
    pub(crate) wanted: Vec<GroupSizes>,
    /// More than sizes is written: shapes, images, environments.
    pub(crate) recipe: bool,
    /// The head's recipe is among that.
    pub(crate) head: bool,
    /// Whose members are waited for.
    pub(crate) complete: Complete,
    /// Incarnations of members that have to be replaced.
    pub(crate) old: HashSet<MemberId>,
    /// Outdated members have to be replaced.
    pub(crate) rolled: bool,
    /// There is a head.
    pub(crate) has_head: bool,
    /// The object was never observed: its creation did not get that far.
    pub(crate) unmade: bool,
}

impl Goal {
    /// A goal that writes nothing.
    pub(crate) fn looking(complete: Complete) -> Self {
        Self {
            write: Write::Nothing,
            wanted: Vec::new(),
            recipe: false,
            head: false,
            complete,
            old: HashSet::new(),
            rolled: false,
            has_head: false,
            unmade: false,
        }
    }
}

/// What an action remembers between two observations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// The fence of the action's first write, recorded before it: every write of this action has this fence or a higher
    /// one.
    pub(crate) called: Option<Fence>,
    /// The write was acknowledged, or was not needed.
    pub(crate) acknowledged: bool,
    /// An acknowledged write got lost: no retry before this moment.
    pub(crate) not_before: Option<Timestamp>,
}

/// The decision of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Call the provider.
    Call,
    /// The object has the wanted content.
    Acknowledged,
    /// There is nothing to do now, and why; observe again when something changes, or then.
    Wait(Option<Timestamp>, Vec<String>),
    /// The goal is reached.
    Reached,
    /// The goal cannot be reached.
    Unreachable(Vec<String>),
}

/// Decides the next step.
pub(crate) fn plan(goal: &Goal, seen: &Observed, memory: &Memory, now: Timestamp) -> Verdict {
    let spec = match &seen.object {
        Object::Unknown => {
            return Verdict::Wait(None, vec!["its state is unknown".to_owned()]);
        }
        Object::Absent => return without_object(goal, seen, memory, now),
        Object::Present(spec) => spec,
    };
    if spec.leaving && goal.write != Write::Delete {
        return unreachable("the cluster is being deleted elsewhere");
    }
    let step = match goal.write {
        Write::Nothing => None,
        Write::Create if (spec.unfinished || !spec.missing.is_empty()) && !memory.acknowledged => {
            Some(call(memory, now))
        }
        Write::Create => (!memory.acknowledged).then_some(Verdict::Acknowledged),
        Write::Update | Write::RestartHead if !spec.missing.is_empty() && !memory.acknowledged => {
            Some(call(memory, now))
        }
        Write::Update => update(goal, spec, memory, now),
        Write::RestartHead => restart(goal, &seen.members, memory, now),
        Write::Delete if !spec.leaving => Some(call(memory, now)),
        Write::Delete if memory.acknowledged => {
            let what = "the object is still there".to_owned();
            Some(Verdict::Wait(None, std::iter::once(what).chain(spec.pending.clone()).collect()))
        }
        Write::Delete => Some(Verdict::Acknowledged),
    };
    if let Some(step) = step {
        return step;
    }
    let missing = missing(goal, spec, &seen.members);
    if missing.is_empty() {
        Verdict::Reached
    } else if spec.refused.is_empty() {
        Verdict::Wait(None, missing.into_iter().chain(spec.pending.clone()).collect())
    } else {
        Verdict::Unreachable(spec.refused.clone())
    }
}

fn without_object(goal: &Goal, seen: &Observed, memory: &Memory, now: Timestamp) -> Verdict {
    match goal.write {
        Write::Create if !memory.acknowledged => call(memory, now),
        Write::Create => unreachable("the cluster was deleted elsewhere"),
        Write::Delete if seen.members.is_empty() && seen.left.is_empty() => Verdict::Reached,
        Write::Delete => Verdict::Wait(None, left(seen)),
        Write::Nothing if goal.complete == Complete::Groups(Vec::new()) => Verdict::Reached,
        _ if goal.unmade => {
            unreachable("it was never made, because its creation failed: recover or delete it")
        }
        _ => unreachable("the cluster was deleted elsewhere"),
    }
}

/// Leftovers of a deleted object.
fn left(seen: &Observed) -> Vec<String> {
    let members = &seen.members;
    let still =
        (!members.is_empty()).then(|| format!("{} is still there{}", names(members), why(members.iter())));
    still.into_iter().chain(seen.left.clone()).collect()
}

fn unreachable(why: &str) -> Verdict {
    Verdict::Unreachable(vec![why.to_owned()])
}

fn call(memory: &Memory, now: Timestamp) -> Verdict {
    match memory.not_before.filter(|moment| *moment > now) {
        Some(moment) => Verdict::Wait(Some(moment), Vec::new()),
        None => Verdict::Call,
    }
}

/// Whether the object has to be written, or cannot reach the wanted content.
fn update(goal: &Goal, spec: &Spec, memory: &Memory, now: Timestamp) -> Option<Verdict> {
    let mut differences = Vec::new();
    for wanted in &goal.wanted {
        let Some(group) = spec.groups.iter().find(|group| group.name == wanted.group) else {
            return Some(unreachable(&format!("there is no group '{}' any more", wanted.group)));
        };
        if group.autoscaled && wanted.desired.is_some() {
            return Some(unreachable(&scaled_by_autoscaler(&group.name)));
        }
        differences.extend(difference(wanted, group));
    }
    // The fence distinguishes a lost write from one that was changed elsewhere since.
    let landed = memory.called.is_some_and(|fence| spec.fence >= fence);
    match (memory.acknowledged, landed) {
        (false, false) if goal.recipe || !differences.is_empty() => Some(call(memory, now)),
        (false, _) => Some(Verdict::Acknowledged),
        (true, false) if memory.called.is_some() => Some(call(memory, now)),
        (true, _) if differences.is_empty() => None,
        (true, _) => Some(Verdict::Unreachable(
            differences.into_iter().map(|what| format!("changed elsewhere: {what}")).collect(),
        )),
    }
}

pub(crate) fn scaled_by_autoscaler(group: &str) -> String {
    format!("group '{group}' is scaled by its autoscaler: change its bounds, not its size")
}

fn difference(wanted: &GroupSizes, group: &SeenGroup) -> Option<String> {
    let desired = wanted.desired.is_some_and(|desired| desired != group.desired);
    // An object without bounds cannot differ in them.
    let bounds = wanted.bounds.is_some() && group.bounds.is_some() && wanted.bounds != group.bounds;
    (desired || bounds).then(|| {
        let between = group.bounds.map_or_else(String::new, |Bounds { min, max }| {
            let max = max.map_or_else(|| "any number".to_owned(), |max| max.to_string());
            format!(" between {min} and {max}")
        });
        format!("group '{}' shall now have {} workers{between}", group.name, group.desired)
    })
}

/// Whether an old incarnation exists that is not being removed.
fn restart(goal: &Goal, members: &[SeenMember], memory: &Memory, now: Timestamp) -> Option<Verdict> {
    let stays = members.iter().any(|member| !member.leaving && goal.old.contains(&member.id));
    let no_head = !members.iter().any(|member| member.role == NodeRole::Head);
    if stays || (no_head && !memory.acknowledged) {
        Some(call(memory, now))
    } else {
        (!memory.acknowledged).then_some(Verdict::Acknowledged)
    }
}

/// Messages about everything that differs from the object.
fn missing(goal: &Goal, spec: &Spec, members: &[SeenMember]) -> Vec<String> {
    let mut missing = Vec::new();
    // Where the operator replaces the head for its new recipe, the new one has to work.
    let replaces_head = goal.head && goal.rolled;
    if goal.has_head && (goal.complete == Complete::All || replaces_head) {
        let head = members.iter().find(|member| member.role == NodeRole::Head && !member.leaving);
        match head {
            Some(head) if works(head) => {}
            Some(head) => missing.push(format!("the head does not work yet{}", why([head].into_iter()))),
            None => missing.push("the head is not there yet".to_owned()),
        }
    }
    for group in &spec.groups {
        let concerned = match &goal.complete {
            Complete::All => true,
            Complete::Groups(names) => names.contains(&group.name),
        };
        if concerned {
            missing.extend(missing_of(group, members));
        }
    }
    let old =
        members.iter().filter(|member| goal.old.contains(&member.id) || (goal.rolled && member.outdated));
    let old: Vec<SeenMember> = old.cloned().collect();
    if !old.is_empty() {
        missing.push(format!("not replaced yet: {}", names(&old)));
    }
    missing
}

/// Messages about everything that keeps a cluster from its goal.
pub(crate) fn obstacles(has_head: bool, spec: &Spec, members: &[SeenMember]) -> Vec<String> {
    let goal = Goal { has_head, ..Goal::looking(Complete::All) };
    let missing = missing(&goal, spec, members).into_iter();
    missing.chain(taken_away(spec)).chain(spec.refused.clone()).chain(spec.pending.clone()).collect()
}

/// Parts that were deleted elsewhere, and how to restore them.
fn taken_away(spec: &Spec) -> Option<String> {
    let what = spec.missing.join(", ");
    (!what.is_empty()).then(|| format!("{what} is not there: recover, restart or scale it to make it again"))
}

fn missing_of(group: &SeenGroup, members: &[SeenMember]) -> Option<String> {
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
        Some(format!("group '{name}': {} workers more than {wanted} are there", stay - wanted))
    } else if leave > 0 {
        Some(format!("group '{name}': {leave} workers are being removed"))
    } else {
        None
    }
}

fn works(member: &SeenMember) -> bool {
    matches!(member.seen, Seen::Running { .. })
}

/// The most members that a message names; there may be thousands.
const NAMED: usize = 3;

fn why<'m>(members: impl Iterator<Item = &'m SeenMember>) -> String {
    let reason = |member: &'m SeenMember| match &member.seen {
        Seen::Exited { reason } | Seen::Unknown { reason } => reason.as_str(),
        _ => member.reason.as_str(),
    };
    let reasons = distinct(members.map(|member| (member.name.as_str(), reason(member))));
    if reasons.is_empty() { String::new() } else { format!(" ({})", summarize(&reasons)) }
}

fn names(members: &[SeenMember]) -> String {
    let mut names: Vec<&str> = members.iter().take(NAMED).map(|member| member.name.as_str()).collect();
    if members.len() > NAMED {
        names.push("…");
    }
    names.join(", ")
}

#[cfg(test)]
mod tests;
