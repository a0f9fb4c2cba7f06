//! What an action wants of a cluster that an operator drives: decided once, and kept with the action.

use std::collections::HashSet;

use muster_core::action::{Action, ActionKind, Fence, Target};
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole};
use muster_core::profile::Profile;
use muster_core::recipe::ClusterRecipe;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actions::{Deletion, resize, update};
use crate::ports::provider::{Bounds, MemberId, Membership, Object, Observed, Operator};
use crate::reconcile::delegated::mirror;
use crate::reconcile::delegated::plan::{Complete, Goal, Wanted, Write};
use crate::run::{ActionRun, Stop};

/// Where an action keeps what was decided.
const KEY: &str = "delegated";

/// What an action wants.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) goal: Goal,
    /// Members that go first.
    pub(crate) victims: Vec<NodeId>,
    /// Makings of members that were there before their recipe changed.
    pub(crate) before: HashSet<MemberId>,
    /// The fence of its first call.
    pub(crate) called: Option<Fence>,
}

/// What cannot be decided twice with the same result: the world has moved on.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Decided {
    wanted: Vec<Wanted>,
    groups: Vec<String>,
    recipe: bool,
    victims: Vec<NodeId>,
    old: HashSet<MemberId>,
    #[serde(default)]
    before: HashSet<MemberId>,
    called: Option<Fence>,
}

impl ActionRun {
    /// Whether what it does was decided before, by this engine or one before it; policies are not asked again.
    pub(crate) fn is_planned(&self) -> bool {
        self.action.applied_at.is_some() || self.data.contains_key(KEY)
    }

    fn operator(&self) -> Option<Operator> {
        match self.capabilities.membership {
            Membership::Delegated(operator) => Some(operator),
            Membership::Individual => None,
        }
    }
}

impl Task {
    /// What an engine before us decided.
    pub(crate) fn kept(run: &ActionRun) -> Option<Self> {
        let decided: Decided = serde_json::from_value(run.data.get(KEY)?.clone()).ok()?;
        Some(Self::new(run, decided))
    }

    /// Decides by what was just seen; the rows mirror it already.
    pub(crate) fn decide(run: &ActionRun, seen: &Observed) -> Result<Self, Stop> {
        let decided = match run.action.kind {
            ActionKind::ClusterResize | ActionKind::ClusterScaleOut | ActionKind::ClusterScaleIn => {
                resized(run)?
            }
            ActionKind::ClusterUpdate => updated(run, seen)?,
            ActionKind::NodeRecover => restarted(run, seen)?,
            ActionKind::ClusterCreate
            | ActionKind::ClusterDelete
            | ActionKind::ClusterCheck
            | ActionKind::ClusterRecover => Decided::default(),
            kind => return Err(Stop::Failed(format!("Unsupported action: {kind}."))),
        };
        Ok(Self::new(run, decided))
    }

    fn new(run: &ActionRun, decided: Decided) -> Self {
        let Decided { wanted, groups, recipe, victims, old, before, called } = decided;
        let unmade = run.cluster.observed.object.is_none();
        let can = |what: fn(Operator) -> bool| run.operator().is_some_and(what);
        let (write, complete) = match run.action.kind {
            ActionKind::ClusterCreate => (Write::Create, Complete::All),
            // What was never made cannot be brought back, but what made it fail may be gone.
            ActionKind::NodeRecover | ActionKind::ClusterRecover if unmade => (Write::Create, Complete::All),
            ActionKind::ClusterDelete => (Write::Delete, Complete::All),
            ActionKind::ClusterResize
            | ActionKind::ClusterScaleOut
            | ActionKind::ClusterScaleIn
            | ActionKind::ClusterUpdate => (Write::Update, Complete::Groups(groups)),
            ActionKind::NodeRecover => (Write::RestartHead, Complete::All),
            // Its operator brings back what is lost; only a head may need a word.
            ActionKind::ClusterRecover if can(|operator| operator.replaces_head) => {
                (Write::RestartHead, Complete::All)
            }
            ActionKind::ClusterRecover => (Write::Nothing, Complete::All),
            _ => (Write::Nothing, Complete::Groups(Vec::new())),
        };
        let rolled = recipe && can(|operator| operator.rolls);
        let has_head = run.cluster.has_head;
        let goal = Goal { write, wanted, recipe, complete, old, rolled, has_head, unmade };
        Self { goal, victims, before, called }
    }

    /// As it is kept with the action.
    pub(crate) fn keep(&self, run: &mut ActionRun) {
        let groups = match &self.goal.complete {
            Complete::All => Vec::new(),
            Complete::Groups(groups) => groups.clone(),
        };
        let decided = Decided {
            wanted: self.goal.wanted.clone(),
            groups,
            recipe: self.goal.recipe,
            victims: self.victims.clone(),
            old: self.goal.old.clone(),
            before: self.before.clone(),
            called: self.called,
        };
        // These are plain strings and numbers: there is nothing that could fail.
        run.data.insert(KEY.to_owned(), serde_json::to_value(decided).unwrap_or(Value::Null));
    }

    /// Whether a node may go without anybody being told.
    pub(crate) fn expects(&self, node: &Node) -> bool {
        self.goal.write == Write::Delete
            || self.goal.rolled
            || self.victims.contains(&node.id)
            || MemberId::of(node).is_some_and(|member| self.goal.old.contains(&member))
    }

    /// The row once the write is acknowledged. Given what the row mirrors now, so that nothing else is undone.
    pub(crate) fn intend(&self, mirror: &Cluster, action: &Action) -> Result<Cluster, Stop> {
        let mut intent = mirror.clone();
        if action.kind == ActionKind::ClusterUpdate {
            update::apply_changes(&mut intent, &action.inputs).map_err(Stop::Failed)?;
        }
        for group in &mut intent.groups {
            let present = mirror.group(&group.name).unwrap_or(group).clone();
            let wanted = self.goal.wanted.iter().find(|wanted| wanted.group == group.name);
            let Bounds { min, max } =
                wanted.and_then(|wanted| wanted.bounds).unwrap_or_else(|| bounds(&present));
            group.desired = wanted.and_then(|wanted| wanted.desired).unwrap_or(present.desired);
            (group.min, group.max) = (min, max);
        }
        if !self.goal.old.is_empty() {
            intent.incarnation += 1;
        }
        if intent != *mirror {
            intent.generation += 1;
        }
        Ok(intent)
    }
}

fn bounds(group: &WorkerGroup) -> Bounds {
    Bounds { min: group.min, max: group.max }
}

fn resized(run: &ActionRun) -> Result<Decided, Stop> {
    let request = resize::Request::of(run)?;
    let mut intent = run.cluster.clone();
    let limit = run.context.config.max_nodes_per_cluster;
    // Changes by a number are from what the object says: members may be on their way.
    let present = |group: &WorkerGroup| usize::try_from(group.desired).unwrap_or(usize::MAX);
    resize::apply(&mut intent, present, &request, limit).map_err(Stop::Failed)?;
    let groups = request.group(&intent).map(|group| group.name.clone()).into_iter().collect();
    let wanted = differences(&run.cluster, &intent);
    let victims = victims(run, &wanted)?;
    Ok(Decided { wanted, groups, victims, ..Decided::default() })
}

fn updated(run: &ActionRun, seen: &Observed) -> Result<Decided, Stop> {
    let mut intent = run.cluster.clone();
    update::apply_changes(&mut intent, &run.action.inputs).map_err(Stop::Failed)?;
    let wanted = differences(&run.cluster, &intent);
    let victims = victims(run, &wanted)?;
    let groups = wanted.iter().map(|wanted| wanted.group.clone()).collect();
    let (before, after) = (&run.cluster, &intent);
    let recipe = !after.is_made_like(before)
        || before.labels != after.labels
        || before.annotations != after.annotations;
    let before = made_before(&run.profile, before, after, seen);
    Ok(Decided { wanted, groups, recipe, victims, before, ..Decided::default() })
}

/// Workers of groups that are made from something else from now on.
fn made_before(profile: &Profile, before: &Cluster, after: &Cluster, seen: &Observed) -> HashSet<MemberId> {
    let recipe = ClusterRecipe::of(&profile.properties).unwrap_or_default();
    let changes = |name: &str| recipe.workers(before.group(name)) != recipe.workers(after.group(name));
    let old = seen.members.iter().filter(|member| member.group.as_deref().is_some_and(changes));
    old.map(|member| member.id.clone()).collect()
}

fn differences(before: &Cluster, after: &Cluster) -> Vec<Wanted> {
    let wanted = |after: &WorkerGroup| {
        let before = before.group(&after.name)?;
        let desired = (before.desired != after.desired).then_some(after.desired);
        let bounds = Some(bounds(after)).filter(|after| *after != bounds(before));
        let group = after.name.clone();
        (desired.is_some() || bounds.is_some()).then_some(Wanted { group, desired, bounds })
    };
    after.groups.iter().filter_map(wanted).collect()
}

/// Who goes where a group shrinks, if that can be chosen.
fn victims(run: &ActionRun, wanted: &[Wanted]) -> Result<Vec<NodeId>, Stop> {
    let chosen = Deletion::of(run).candidates;
    if !run.capabilities.choose_victims {
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        let kind = &run.cluster.profile_type;
        return Err(Stop::Failed(format!(
            "clusters of type {kind} cannot choose victims: which of their workers go is not up to Muster"
        )));
    }
    let mut victims = Vec::new();
    for Wanted { group, desired, .. } in wanted {
        let Some(desired) = desired else { continue };
        let own = |node: &&Node| mirror::stays(node) && node.group.as_ref() == Some(group);
        let members: Vec<&Node> = run.nodes.iter().filter(own).collect();
        let surplus = members.len().saturating_sub(usize::try_from(*desired).unwrap_or(usize::MAX));
        victims.extend(resize::victims(&members, surplus, &chosen, run.profile.created_at));
    }
    Ok(victims)
}

/// The head as it is now, and the workers that cannot find another.
fn restarted(run: &ActionRun, seen: &Observed) -> Result<Decided, Stop> {
    let Target::Node(id) = run.action.target else {
        return Err(Stop::Failed("its target is no node".to_owned()));
    };
    match run.node(id).map(|node| node.role) {
        Some(NodeRole::Head) => {}
        Some(NodeRole::Worker | NodeRole::Unknown(_)) => {
            return Err(Stop::Failed("its operator brings single workers back".to_owned()));
        }
        None => return Err(Stop::Failed("its node is not there any more".to_owned())),
    }
    let said = matches!(&seen.object, Object::Present(spec) if spec.workers_outlive_head);
    let alone = said || run.capabilities.workers_outlive_head;
    let goes = |role| role == NodeRole::Head || !alone;
    let old = seen.members.iter().filter(|member| !member.leaving && goes(member.role));
    Ok(Decided { old: old.map(|member| member.id.clone()).collect(), ..Decided::default() })
}
