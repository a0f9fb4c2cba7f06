//! One action in the slots of an engine: what it works on.

mod children;
mod commit;
mod control;
mod load;
mod slot;
mod stop;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use muster_core::action::{Action, Target};
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::{ActionId, NodeId, ProfileId};
use muster_core::node::{Node, NodeStatus, Seen};
use muster_core::policy::Binding;
use muster_core::profile::Profile;
use muster_core::time::Timestamp;
use muster_store::commands::{End, Ticket};
use muster_store::reads::Subject;
use parking_lot::Mutex;

use crate::action_data::ActionData;
use crate::context::Context;
use crate::intent::{Baseline, Intent};
use crate::lease::Lease;
use crate::notify::{Subscription, Topic};
use crate::ports::provider::{Call, Capabilities, Membership, Observed, Provider};
use crate::run::children::{Children, children_of};
use crate::run::control::Told;
use crate::run::load::About;

pub(crate) use crate::run::children::left_out;
pub(crate) use crate::run::control::time_left;
pub(crate) use slot::Slot;
pub(crate) use stop::{Stop, succeeded, summarize};

/// An action with everything it works on.
pub(crate) struct ActionRun {
    pub(crate) context: Arc<Context>,
    lease: Arc<Lease>,
    /// The slot that works on it; one that is only brought to its end needs none.
    pub(crate) slot: Option<Slot>,
    pub(crate) action: Action,
    pub(crate) cluster: Cluster,
    /// Whether its cluster is a row; otherwise it stands for a node that is in none.
    pub(crate) stored: bool,
    pub(crate) profile: Profile,
    profiles: HashMap<ProfileId, Profile>,
    /// The node that the action is about, as it was at the beginning.
    pub(crate) target: Option<Node>,
    pub(crate) nodes: Vec<Node>,
    places: HashMap<NodeId, usize>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) capabilities: Capabilities,
    /// The child of this action for a node, while it has not ended.
    pub(crate) children: HashMap<NodeId, ActionId>,
    /// Nodes that this action gave up before, and why: it does not try them again.
    pub(crate) given_up: HashMap<NodeId, String>,
    /// What it changes.
    pub(crate) change: Change,
    /// What policies and steps leave for each other.
    pub(crate) data: ActionData,
    /// Nodes whose part of this action has succeeded.
    pub(crate) done: HashSet<NodeId>,
    /// Nodes that are none of ours any more, and whose rows are behind.
    pub(crate) moved: Vec<Node>,
    /// Nodes whose place or recipe is behind in their rows.
    pub(crate) relocated: HashSet<NodeId>,
    /// What policies change beside this.
    pub(crate) effects: crate::policy::Effects,
    /// Members whose rows go with the next commit.
    pub(crate) gone: Vec<NodeId>,
    /// Nodes whose rows are behind.
    pub(crate) dirty: HashSet<NodeId>,
    /// Nodes among these that have no rows yet.
    pub(crate) unborn: HashSet<NodeId>,
    /// Children whose rows are behind.
    pub(crate) ended: Vec<(End, Vec<ActionId>)>,
    /// What keeps a cluster that an operator drives from being as its object says, in words, as it was last seen.
    pub(crate) obstacles: Vec<String>,
    /// Events that go out with the next commit.
    pub(crate) events: Vec<Event>,
    /// Nodes whose start was recorded, by an engine before us or by a step that was given up, without what became of it.
    unsure: HashSet<NodeId>,
    follow: Subscription,
    told: Mutex<Told>,
    /// The world of its cluster, and when it was last looked at.
    pub(crate) world: Subscription,
    pub(crate) looked: u64,
}

impl ActionRun {
    /// Reads all that a claimed action is about, except for what came with the claim.
    pub(crate) async fn load(
        context: &Arc<Context>,
        lease: &Arc<Lease>,
        action: Action,
        taken_over: bool,
        subject: Option<Subject>,
    ) -> Result<Self, Stop> {
        let follow = context.notifier.subscribe(Topic::Action(action.id));
        // What it was told before this was not read by anybody yet.
        let version = follow.version().wrapping_sub(1);
        let about = About::read(context, &action, taken_over, subject).await?;
        let About { cluster, stored, profile, profiles, nodes, bindings, target } = about;
        let children = if taken_over { children_of(context, action.id).await? } else { Children::default() };
        let provider = context.provider(&action.instance).ok_or_else(|| {
            Stop::Failed(format!("no provider serves '{}' in this engine", action.instance))
        })?;
        let unknown = || Stop::Failed(format!("'{}' does not know {}", action.instance, profile.kind));
        let capabilities =
            provider.capabilities(&profile.kind, cluster.flavor.as_deref()).ok_or_else(unknown)?;
        let change = Change::read(action.kind, &action.inputs).map_err(Stop::Failed)?;
        let data = ActionData::read(&action.data);
        let told = Mutex::new(Told { control: action.control, version, ..Told::default() });
        let world = context.notifier.subscribe(Topic::World(cluster.id));
        let starting = |node: &&Node| matches!(node.status, NodeStatus::Creating | NodeStatus::Recovering);
        let unsure = nodes.iter().filter(starting).map(|node| node.id).collect();
        Ok(Self {
            context: Arc::clone(context),
            lease: Arc::clone(lease),
            slot: None,
            action,
            cluster,
            stored,
            profile,
            profiles,
            target,
            places: places(&nodes),
            nodes,
            bindings,
            provider,
            capabilities,
            children: children.open,
            given_up: children.given_up,
            change,
            data,
            done: children.done,
            moved: Vec::new(),
            relocated: HashSet::new(),
            effects: crate::policy::Effects::default(),
            gone: Vec::new(),
            dirty: HashSet::new(),
            unborn: HashSet::new(),
            ended: Vec::new(),
            obstacles: Vec::new(),
            events: Vec::new(),
            unsure,
            follow,
            told,
            looked: world.version(),
            world,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    pub(crate) fn call(&self) -> Call<'_> {
        Call { cluster: &self.cluster, profile: &self.profile, fence: self.action.fence }
    }

    /// What a node is made from. Nodes that cannot be without their cluster are made from what that is made from.
    pub(crate) fn profile_of(&self, node: &Node) -> &Profile {
        let own = self.profiles.get(&node.profile_id).filter(|_| self.capabilities.orphans);
        own.unwrap_or(&self.profile)
    }

    /// Whether all nodes are made from what their cluster is made from.
    pub(crate) fn has_one_recipe(&self) -> bool {
        self.profiles.is_empty() || !self.capabilities.orphans
    }

    /// Whether others may run on other nodes of the cluster at the same time: how that is, this action cannot tell.
    pub(crate) fn shares_cluster(&self) -> bool {
        self.stored && self.target.is_some() && !self.action.kind.takes_cluster()
    }

    /// The nodes that nobody else works on.
    pub(crate) fn own_nodes(&self) -> impl Iterator<Item = &Node> {
        let shared = self.shares_cluster();
        let own = move |node: &&Node| !shared || self.action.target == Target::Node(node.id);
        self.nodes.iter().filter(own)
    }

    /// Whether an operator makes its members.
    pub(crate) fn is_delegated(&self) -> bool {
        matches!(self.capabilities.membership, Membership::Delegated(_))
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.lease.ticket(&self.action)
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        let node = self.nodes.get_mut(*self.places.get(&id)?)?;
        self.dirty.insert(id);
        Some(node)
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(*self.places.get(&id)?)
    }

    /// The cluster and its members as they are, to see what a change makes of them.
    pub(crate) fn intent(&self) -> Intent<'_> {
        let baseline = Baseline::Members(&self.nodes);
        Intent { cluster: &self.cluster, baseline, limit: self.context.config.max_nodes_per_cluster }
    }

    /// The group that the change is about: the one that it names, else the first.
    pub(crate) fn changed_group(&self) -> Result<String, Stop> {
        let first = || self.cluster.groups.first().map(|group| group.name.clone());
        let group = self.change.group().map(str::to_owned).or_else(first);
        group.ok_or_else(|| Stop::Failed("its cluster has no workers".to_owned()))
    }

    /// Takes new members in.
    pub(crate) fn add_nodes(&mut self, nodes: impl IntoIterator<Item = Node>) {
        for node in nodes {
            self.places.insert(node.id, self.nodes.len());
            self.nodes.push(node);
        }
    }

    /// Forgets members that are gone.
    pub(crate) fn remove_nodes(&mut self, gone: &HashSet<NodeId>) {
        self.nodes.retain(|node| !gone.contains(&node.id));
        self.dirty.retain(|id| !gone.contains(id));
        self.unborn.retain(|id| !gone.contains(id));
        self.places = places(&self.nodes);
    }

    /// Writes into memory that a node has another place, or another recipe.
    pub(crate) fn relocate(&mut self, node: Node) {
        let id = node.id;
        if let Some(row) = self.node_mut(id) {
            *row = node;
        }
        self.relocated.insert(id);
    }

    /// Has a node be made from another recipe from now on.
    pub(crate) fn follow_recipe(&mut self, id: NodeId, profile: Profile) {
        if let Some(node) = self.node(id).cloned() {
            self.relocate(Node { profile_id: profile.id, ..node });
        }
        self.profiles.insert(profile.id, profile);
    }

    /// Has a node be made from its cluster's recipe from now on.
    pub(crate) fn follow_cluster(&mut self, id: NodeId) {
        if let Some(node) = self.node(id).cloned() {
            self.relocate(Node { profile_id: self.profile.id, ..node });
        }
    }

    /// Has the cluster be made from another recipe from now on; its members follow on their own.
    pub(crate) fn change_recipe(&mut self, profile: Profile) {
        let old = std::mem::replace(&mut self.profile, profile);
        self.profiles.insert(old.id, old);
    }

    /// What a node was made from, as its row says.
    pub(crate) fn recipe_of_row(&self, node: &Node) -> &Profile {
        self.profiles.get(&node.profile_id).unwrap_or(&self.profile)
    }

    /// Members that are in no cluster any more.
    pub(crate) fn move_out(&mut self, leaving: &HashSet<NodeId>) {
        let now = self.now();
        let leavers = self.nodes.iter().filter(|node| leaving.contains(&node.id)).cloned();
        let orphans = leavers.map(|node| Node { updated_at: Some(now), ..node.orphaned() });
        self.moved.extend(orphans.collect::<Vec<_>>());
        self.remove_nodes(leaving);
    }

    /// Starts that were recorded and are given up: whether they happened is seen at the next look.
    pub(crate) fn doubt_starts(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        self.unsure.extend(nodes);
    }

    /// A start that was recorded and did not happen, because its engine died or it was given up, is not held against
    /// the node.
    pub(crate) fn forgive_starts(&mut self, seen: &Observed) {
        for id in std::mem::take(&mut self.unsure) {
            match seen.of(id) {
                Seen::Unknown { .. } => drop(self.unsure.insert(id)),
                Seen::Absent | Seen::Starting { .. } => {
                    self.node_mut(id).and_then(|node| node.starts.pop());
                }
                Seen::Running { .. } | Seen::Exited { .. } | Seen::HostRestarted => {}
            }
        }
    }
}

fn places(nodes: &[Node]) -> HashMap<NodeId, usize> {
    nodes.iter().enumerate().map(|(place, node)| (node.id, place)).collect()
}
