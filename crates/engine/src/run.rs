//! One claimed action: what was read for it, what its next commit writes, and how it may be interrupted.

mod children;
mod commit;
mod control;
mod journal;
mod load;
mod provider;
mod slot;
mod stop;
mod subject;

use std::collections::HashSet;
use std::sync::Arc;

use muster_core::action::{Action, Target};
use muster_core::change::Change;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus, Observation};
use muster_core::profile::Profile;
use muster_core::time::Timestamp;
use muster_store::commands::Ticket;
use muster_store::reads;

use crate::action_data::ActionData;
use crate::context::Context;
use crate::intent::Intent;
use crate::lease::Lease;
use crate::notify::{Subscription, Topic};
use crate::ports::provider::{Observed, Provider};
use children::Children;
use control::Control;
use journal::Journal;
use subject::Subject;

pub(crate) use children::excluded;
pub(crate) use control::time_left;
pub(crate) use slot::Slot;
pub(crate) use stop::{Stop, succeeded, summarize};

/// An action that this engine claimed, and everything that it works with.
pub(crate) struct ActionRun {
    pub(crate) context: Arc<Context>,
    /// The slot that it occupies; an action that is only brought to its end needs none.
    pub(crate) slot: Option<Slot>,
    /// The action as it was claimed.
    pub(crate) action: Action,
    /// What it changes.
    pub(crate) change: Change,
    /// Data that policies and steps exchange.
    pub(crate) data: ActionData,
    /// The cluster and its members.
    pub(crate) subject: Subject,
    /// What the next commit writes.
    pub(crate) journal: Journal,
    /// Its child actions, by node.
    pub(crate) children: Children,
    /// What may interrupt it.
    pub(crate) control: Control,
    pub(crate) provider: Arc<dyn Provider>,
    /// What keeps a delegated cluster from being as its object says, as last observed.
    pub(crate) obstacles: Vec<String>,
    /// Nodes whose start was recorded without a result, by an earlier engine or by an interrupted step.
    unconfirmed_starts: HashSet<NodeId>,
    /// Changes that the provider reports for the cluster, and the version up to which it was observed.
    pub(crate) world: Subscription,
    pub(crate) observed_version: u64,
}

impl ActionRun {
    /// Reads everything that a claimed action needs, except for what came with the claim.
    pub(crate) async fn load(
        context: &Arc<Context>,
        lease: &Arc<Lease>,
        action: Action,
        taken_over: bool,
        claimed: Option<reads::Subject>,
    ) -> Result<Self, Stop> {
        let control = Control::new(context, lease, &action);
        let change = Change::read(action.kind, &action.inputs).map_err(Stop::Failed)?;
        let provider = context.provider(&action.instance).ok_or_else(|| {
            Stop::Failed(format!("no provider serves '{}' in this engine", action.instance))
        })?;
        let subject = Subject::load(context, provider.as_ref(), &action, taken_over, claimed).await?;
        let children = Children::load(context, &action, taken_over).await?;
        let world = context.notifier.subscribe(Topic::World(subject.cluster.id));
        let starting = |node: &&Node| matches!(node.status, NodeStatus::Creating | NodeStatus::Recovering);
        Ok(Self {
            context: Arc::clone(context),
            slot: None,
            data: ActionData::read(&action.data),
            action,
            change,
            unconfirmed_starts: subject.nodes.iter().filter(starting).map(|node| node.id).collect(),
            subject,
            journal: Journal::default(),
            children,
            control,
            provider,
            obstacles: Vec::new(),
            observed_version: world.version(),
            world,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.control.lease.ticket(&self.action)
    }

    /// The cluster and its members before the change.
    pub(crate) fn intent(&self) -> Intent<'_> {
        self.subject.intent(self.context.config.max_nodes_per_cluster)
    }

    /// The group that the change is about: the one that it names, else the first.
    pub(crate) fn changed_group(&self) -> Result<String, Stop> {
        let first = || self.subject.cluster.groups.first().map(|group| group.name.clone());
        let group = self.change.group().map(str::to_owned).or_else(first);
        group.ok_or_else(|| Stop::Failed("its cluster has no workers".to_owned()))
    }

    /// Whether other actions may work on other nodes of the cluster at the same time.
    pub(crate) fn shares_cluster(&self) -> bool {
        self.subject.stored && self.subject.target.is_some() && !self.action.kind.locks_cluster()
    }

    /// The nodes that no other action works on, and no newer version alone.
    pub(crate) fn own_nodes(&self) -> impl Iterator<Item = &Node> {
        let shared = self.shares_cluster();
        let own = move |node: &&Node| !shared || self.action.target == Target::Node(node.id);
        self.subject.nodes.iter().filter(own).filter(|node| node.has_known_role())
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.subject.node(id)
    }

    /// A node that is about to change; it is written with the next commit.
    pub(crate) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        let node = self.subject.node_mut(id)?;
        self.journal.dirty.insert(id);
        Some(node)
    }

    /// Sets a node's status and its reason in memory.
    pub(crate) fn set_status(&mut self, id: NodeId, status: NodeStatus, reason: &str) {
        let now = self.now();
        if let Some(node) = self.node_mut(id) {
            node.status = status;
            reason.clone_into(&mut node.status_reason);
            node.updated_at = Some(now);
        }
    }

    /// Adds new members; their rows are inserted with the next commit.
    pub(crate) fn add_new_nodes(&mut self, nodes: Vec<Node>) {
        for node in &nodes {
            self.journal.dirty.insert(node.id);
            self.journal.unborn.insert(node.id);
        }
        self.subject.add_nodes(nodes);
    }

    /// Removes members that are gone.
    pub(crate) fn remove_nodes(&mut self, gone: &HashSet<NodeId>) {
        self.subject.remove_nodes(gone);
        self.journal.forget(gone);
    }

    /// Changes a node's cluster, group or profile in memory.
    pub(crate) fn relocate(&mut self, node: Node) {
        let id = node.id;
        if let Some(row) = self.node_mut(id) {
            *row = node;
        }
        self.journal.relocated.insert(id);
    }

    /// Moves a node to another profile.
    pub(crate) fn follow_profile(&mut self, id: NodeId, profile: Profile) {
        if let Some(node) = self.node(id).cloned() {
            self.relocate(Node { profile_id: profile.id, ..node });
        }
        self.subject.profiles.insert(profile.id, profile);
    }

    /// Moves a node to its cluster's profile.
    pub(crate) fn follow_cluster(&mut self, id: NodeId) {
        if let Some(node) = self.node(id).cloned() {
            self.relocate(Node { profile_id: self.subject.profile.id, ..node });
        }
    }

    /// Turns members into orphans.
    pub(crate) fn move_out(&mut self, leaving: &HashSet<NodeId>) {
        let now = self.now();
        let leavers = self.subject.nodes.iter().filter(|node| leaving.contains(&node.id)).cloned();
        let orphans = leavers.map(|node| Node { updated_at: Some(now), ..node.orphaned() });
        self.journal.moved.extend(orphans.collect::<Vec<_>>());
        self.remove_nodes(leaving);
    }

    /// Marks recorded starts as interrupted: the next observation shows whether they happened.
    pub(crate) fn leave_starts_unconfirmed(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        self.unconfirmed_starts.extend(nodes);
    }

    /// Removes recorded starts that did not happen, because their engine died or was interrupted: they do not count
    /// against the node.
    pub(crate) fn forget_starts_that_did_not_happen(&mut self, observed: &Observed) {
        for id in std::mem::take(&mut self.unconfirmed_starts) {
            match observed.of(id) {
                Observation::Unknown { .. } => drop(self.unconfirmed_starts.insert(id)),
                Observation::Absent | Observation::Starting { .. } => {
                    self.node_mut(id).and_then(|node| node.starts.pop());
                }
                Observation::Running { .. } | Observation::Exited { .. } | Observation::HostRestarted => {}
            }
        }
    }
}
