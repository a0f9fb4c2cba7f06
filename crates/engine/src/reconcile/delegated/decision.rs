//! The decision of an action on a delegated cluster: made once, and stored with the action.

use std::collections::{BTreeSet, HashMap, HashSet};

use muster_core::action::Fence;
use muster_core::change::{Change, RestartScope};
use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole};

use crate::action_data::{ActionData, DelegatedDecision, GroupSizes};
use crate::intent::recipe::RecipeChange;
use crate::intent::victims::{choose_victims, chosen};
use crate::intent::{Baseline, Intent, find_group, properties_after, size_changes, with_sizes};
use crate::ports::provider::{
    MemberId, ObjectState, Observed, ObservedGroup, ObservedMember, OperatorCapabilities,
};
use crate::reconcile::delegated::mirror;
use crate::reconcile::delegated::plan::{WaitScope, Write, WriteGoal};
use crate::run::{RunSubject, Stop};

/// The write that an action on a delegated cluster makes, and the members that it concerns.
#[derive(Debug, Clone)]
pub(crate) struct WriteDecision {
    pub(crate) goal: WriteGoal,
    /// Members that are removed first.
    pub(crate) victims: Vec<NodeId>,
    /// Incarnations of members that existed before their recipe changed.
    pub(crate) before: HashSet<MemberId>,
    /// The fence of the action's first write.
    pub(crate) called: Option<Fence>,
}

impl WriteDecision {
    /// Loads the decision of an earlier engine.
    pub(crate) fn load(subject: &RunSubject, change: &Change, data: &ActionData) -> Option<Self> {
        Some(Self::new(subject, change, data.delegated.clone()?))
    }

    /// Decides by the current observation, which the rows mirror already. `differs` says whether an update changes the
    /// recipe in the object, if the provider compares them.
    pub(crate) fn decide(
        subject: &RunSubject,
        change: &Change,
        data: &ActionData,
        observed: &Observed,
        differs: Option<bool>,
    ) -> Result<Self, Stop> {
        let decided = match change {
            Change::Resize(_) | Change::ScaleOut(_) | Change::ScaleIn(_) => {
                resized(subject, change, data, observed)?
            }
            Change::UpdateCluster(_) => updated(subject, change, data, observed, differs)?,
            Change::RecoverNode(_) => restarted(subject, observed)?,
            Change::CreateCluster
            | Change::DeleteCluster(_)
            | Change::CheckCluster(_)
            | Change::RecoverCluster(_) => DelegatedDecision::default(),
            Change::AddNodes(_)
            | Change::RemoveNodes(_)
            | Change::ReplaceNodes(_)
            | Change::OperateCluster(_)
            | Change::AttachPolicy(_)
            | Change::DetachPolicy(_)
            | Change::UpdatePolicy(_)
            | Change::CreateNode(_)
            | Change::DeleteNode(_)
            | Change::UpdateNode(_)
            | Change::JoinNode
            | Change::LeaveNode
            | Change::CheckNode(_)
            | Change::OperateNode(_) => {
                return Err(Stop::Failed(format!("Unsupported action: {}.", change.kind())));
            }
        };
        Ok(Self::new(subject, change, decided))
    }

    fn new(subject: &RunSubject, change: &Change, decided: DelegatedDecision) -> Self {
        let DelegatedDecision {
            wanted, groups, recipe, head, victims, old, replaced, before, called, ..
        } = decided;
        let unmade = subject.cluster.observed.object.is_none();
        let can = |what: fn(OperatorCapabilities) -> bool| subject.operator().is_some_and(what);
        let (write, complete) = match change {
            Change::CreateCluster => (Write::Create, WaitScope::All),
            // A cluster that was never created cannot be recovered, but the cause of the failure may be gone.
            Change::RecoverNode(_) | Change::RecoverCluster(_) if unmade => (Write::Create, WaitScope::All),
            Change::DeleteCluster(_) => (Write::Delete, WaitScope::All),
            // The change may have superseded the creation of the cluster, which waited for the head too.
            Change::Resize(_) | Change::ScaleOut(_) | Change::ScaleIn(_) | Change::UpdateCluster(_)
                if subject.cluster.created_at.is_none() =>
            {
                (Write::Update, WaitScope::All)
            }
            Change::Resize(_) | Change::ScaleOut(_) | Change::ScaleIn(_) | Change::UpdateCluster(_) => {
                (Write::Update, WaitScope::Groups(groups))
            }
            Change::RecoverNode(_) => (Write::RestartHead, WaitScope::All),
            // The operator replaces lost members; only a head may have to be replaced on request.
            Change::RecoverCluster(_) if can(|operator| operator.replaces_head) => {
                (Write::RestartHead, WaitScope::All)
            }
            Change::RecoverCluster(_) => (Write::Nothing, WaitScope::All),
            // A check. `decide` names every kind, and has refused the others.
            _ => (Write::Nothing, WaitScope::Groups(Vec::new())),
        };
        let rolled = recipe && can(|operator| operator.rolls);
        let has_head = subject.cluster.has_head;
        let goal =
            WriteGoal { write, wanted, recipe, head, complete, old, replaced, rolled, has_head, unmade };
        Self { goal, victims, before, called }
    }

    /// Stores the decision with the action.
    pub(crate) fn save(&self, data: &mut ActionData) {
        let groups = match &self.goal.complete {
            WaitScope::All => Vec::new(),
            WaitScope::Groups(groups) => groups.clone(),
        };
        data.delegated = Some(DelegatedDecision {
            wanted: self.goal.wanted.clone(),
            groups,
            recipe: self.goal.recipe,
            head: self.goal.head,
            victims: self.victims.clone(),
            old: self.goal.old.clone(),
            replaced: self.goal.replaced.clone(),
            before: self.before.clone(),
            called: self.called,
            refused: false,
            ..data.delegated.take().unwrap_or_default()
        });
    }

    /// Returns true if an update was recorded but has not reached the object: the object has no fence of it yet.
    pub(crate) fn has_not_landed(&self, observed: &Observed) -> bool {
        match (&observed.object, self.called) {
            (ObjectState::Present(spec), Some(called)) => {
                self.goal.write == Write::Update && spec.fence < called
            }
            _ => false,
        }
    }

    /// Returns true if the loss of a node is expected, and needs no event.
    pub(crate) fn expects_loss_of(&self, node: &Node) -> bool {
        self.goal.write == Write::Delete
            || self.goal.rolled
            || self.victims.contains(&node.id)
            || MemberId::of(node)
                .is_some_and(|member| self.goal.old.contains(&member) || self.goal.replaced.contains(&member))
    }

    /// Returns the cluster as it is once the write is acknowledged. It is based on the current mirror, so that external
    /// changes are not undone.
    pub(crate) fn intended_cluster(&self, mirror: &Cluster, change: &Change) -> Result<Cluster, Stop> {
        let changed = properties_after(mirror, change)?;
        let mut intent = with_sizes(changed, mirror, &self.goal.wanted);
        if !self.goal.old.is_empty() {
            intent.incarnation += 1;
        }
        if intent != *mirror {
            intent.generation += 1;
        }
        Ok(intent)
    }
}

/// Returns the cluster after the change. Sizes count from those of the object, because members may still be starting.
fn after(subject: &RunSubject, change: &Change, data: &ActionData) -> Result<Cluster, Stop> {
    let intent = Intent { baseline: Baseline::Desired, ..subject.intent() };
    Ok(intent.after(change, data)?)
}

fn resized(
    subject: &RunSubject,
    change: &Change,
    data: &ActionData,
    observed: &Observed,
) -> Result<DelegatedDecision, Stop> {
    let intent = after(subject, change, data)?;
    let groups = find_group(&intent, change.group()).map(|group| group.name.clone());
    let wanted = wanted(subject, &intent, change, observed);
    let victims = victims(subject, &chosen(change, data), &wanted)?;
    Ok(DelegatedDecision {
        wanted,
        groups: groups.into_iter().collect(),
        victims,
        ..DelegatedDecision::default()
    })
}

fn updated(
    subject: &RunSubject,
    change: &Change,
    data: &ActionData,
    observed: &Observed,
    differs: Option<bool>,
) -> Result<DelegatedDecision, Stop> {
    let intent = after(subject, change, data)?;
    let wanted = wanted(subject, &intent, change, observed);
    let victims = victims(subject, &chosen(change, data), &wanted)?;
    let mut groups: Vec<String> = wanted.iter().map(|wanted| wanted.group.clone()).collect();
    let update = if let Change::UpdateCluster(update) = change { Some(update) } else { None };
    let restarts = update.is_some_and(|update| update.restart == Some(RestartScope::Workers));
    let names_head = update.is_some_and(|update| update.head.is_some());
    let (before, after) = (&subject.cluster, &intent);
    let recipe = differs.unwrap_or_else(|| !after.has_same_recipe(before))
        || before.labels != after.labels
        || before.annotations != after.annotations;
    // The members whose recipe changes.
    let profile = &subject.profile;
    let change = RecipeChange::between((before, profile), (after, profile));
    let concerned = |member: &ObservedMember| change.concerns(member.role, member.group.as_deref());
    let before = observed.members.iter().filter(|member| concerned(member));
    let before = before.map(|member| member.id.clone()).collect();
    let head = change.concerns_head() || (names_head && differs == Some(true));
    let mut replaced = Vec::new();
    // An operator that rolls replaces the workers itself.
    if restarts && subject.operator().is_some_and(|operator| operator.replaces_workers && !operator.rolls) {
        let is_old = |member: &&ObservedMember| {
            member.role == NodeRole::Worker && (concerned(member) || is_outdated(subject, member))
        };
        let old: Vec<&ObservedMember> = observed.members.iter().filter(is_old).collect();
        let concerned = old.iter().filter_map(|member| member.group.clone());
        groups.extend(concerned.filter(|group| !groups.contains(group)).collect::<BTreeSet<_>>());
        replaced = old.into_iter().map(|member| member.id.clone()).collect();
    }
    Ok(DelegatedDecision {
        wanted,
        groups,
        recipe,
        head,
        victims,
        replaced,
        before,
        ..DelegatedDecision::default()
    })
}

/// Returns whether a member was created from an older recipe, by its observation or by its row from an earlier update.
fn is_outdated(subject: &RunSubject, member: &ObservedMember) -> bool {
    let is_row = |node: &&Node| MemberId::of(node).is_some_and(|id| id == member.id);
    member.outdated || subject.nodes.iter().find(is_row).is_some_and(Node::is_outdated)
}

/// Returns the sizes that change, and requested sizes that an autoscaler beside the object may still undercut.
fn wanted(subject: &RunSubject, intent: &Cluster, change: &Change, observed: &Observed) -> Vec<GroupSizes> {
    let mut wanted = size_changes(&subject.cluster, intent);
    let ObjectState::Present(spec) = &observed.object else { return wanted };
    for observed in spec.groups.iter().filter(|group| group.floor_differs) {
        let is_known = wanted.iter().any(|known| known.group == observed.name && known.desired.is_some());
        if let Some(group) =
            intent.group(&observed.name).filter(|_| !is_known && names_size(change, intent, observed))
        {
            let desired = Some(group.desired);
            match wanted.iter_mut().find(|known| known.group == group.name) {
                Some(known) => known.desired = desired,
                None => {
                    let group = group.name.clone();
                    wanted.push(GroupSizes { group, desired, ..GroupSizes::default() });
                }
            }
        }
    }
    wanted
}

/// Returns true if a change names the size of a group.
fn names_size(change: &Change, cluster: &Cluster, group: &ObservedGroup) -> bool {
    match change {
        Change::Resize(resize) => {
            resize.resize.adjustment.is_some()
                && find_group(cluster, change.group()).is_ok_and(|own| own.name == group.name)
        }
        Change::UpdateCluster(update) => {
            update.groups.iter().flatten().any(|own| own.name == group.name && own.desired.is_some())
        }
        _ => false,
    }
}

/// Chooses victims where a group shrinks. Fails if a request names victims and the operator cannot choose them.
fn victims(subject: &RunSubject, chosen: &[NodeId], wanted: &[GroupSizes]) -> Result<Vec<NodeId>, Stop> {
    if !subject.capabilities.choose_victims {
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        let kind = &subject.cluster.profile_type;
        return Err(Stop::Failed(format!(
            "clusters of type {kind} cannot choose victims: their operator chooses the workers to remove"
        )));
    }
    let mut victims = Vec::new();
    for GroupSizes { group, desired, .. } in wanted {
        let Some(desired) = desired else { continue };
        let own = |node: &&Node| mirror::stays(node) && node.group.as_ref() == Some(group);
        let members: Vec<&Node> = subject.nodes.iter().filter(own).collect();
        let surplus = members.len().saturating_sub(usize::try_from(*desired).unwrap_or(usize::MAX));
        victims.extend(choose_victims(
            &members,
            surplus,
            chosen,
            subject.profile.created_at,
            &HashMap::new(),
        ));
    }
    Ok(victims)
}

/// Decides to replace the current head, and the workers that cannot rejoin another head.
fn restarted(subject: &RunSubject, observed: &Observed) -> Result<DelegatedDecision, Stop> {
    let Some(target) = &subject.target else {
        return Err(Stop::Failed("its target is not a node".to_owned()));
    };
    match subject.node(target.id).map(|node| node.role) {
        Some(NodeRole::Head) => {}
        Some(NodeRole::Worker | NodeRole::Unknown(_)) => {
            return Err(Stop::Failed("its operator recreates single workers".to_owned()));
        }
        None => return Err(Stop::Failed("its node was deleted".to_owned())),
    }
    let said = matches!(&observed.object, ObjectState::Present(spec) if spec.workers_outlive_head);
    let alone = said || subject.capabilities.workers_outlive_head;
    let goes = |role| role == NodeRole::Head || !alone;
    let old = observed.members.iter().filter(|member| !member.leaving && goes(member.role));
    Ok(DelegatedDecision {
        old: old.map(|member| member.id.clone()).collect(),
        ..DelegatedDecision::default()
    })
}
