//! The child actions of an action: one for each node that it changes.

use std::collections::{HashMap, HashSet};

use muster_core::action::{Action, ActionStatus, Cause, Target};
use muster_core::change::Change;
use muster_core::ids::{ActionId, NodeId};
use muster_store::commands::End;
use muster_store::reads::ActionQuery;

use crate::context::Context;
use crate::ids::new_id;
use crate::run::{ActionRun, Stop};

/// The children by node.
#[derive(Default)]
pub(crate) struct Children {
    /// Those that have not ended.
    pub(crate) open: HashMap<NodeId, ActionId>,
    /// Nodes whose child has succeeded.
    pub(crate) done: HashSet<NodeId>,
    /// Nodes that were given up, and why: this action does not retry them.
    pub(crate) given_up: HashMap<NodeId, String>,
}

impl Children {
    /// Loads the children that an earlier engine recorded; an action that is claimed for the first time has none.
    pub(super) async fn load(context: &Context, parent: &Action, taken_over: bool) -> Result<Self, Stop> {
        let mut children = Self::default();
        if !taken_over {
            return Ok(children);
        }
        let query = ActionQuery { parent: Some(parent.id), ..ActionQuery::default() };
        for child in context.store.actions(&query).await?.items {
            let Target::Node(node) = child.target else { continue };
            match child.status {
                ActionStatus::Succeeded => drop(children.done.insert(node)),
                ActionStatus::Failed => drop(children.given_up.insert(node, child.status_reason)),
                ActionStatus::Cancelled => drop(children.given_up.insert(node, excluded(child.id))),
                _ => drop(children.open.insert(node, child.id)),
            }
        }
        Ok(children)
    }
}

impl ActionRun {
    /// Nodes that a user excluded by cancelling their child action.
    pub(crate) fn cancelled_children(&self) -> Vec<(NodeId, ActionId)> {
        let cancelled = self.control.cancelled_children();
        let open = self.children.open.iter().filter(|(_, child)| cancelled.contains(child));
        open.map(|(node, child)| (*node, *child)).collect()
    }

    /// Whether a node needs a child; it has none in its own action.
    pub(crate) fn needs_child(&self, id: NodeId) -> bool {
        !self.children.open.contains_key(&id) && self.action.target != Target::Node(id)
    }

    /// A child for a node, already running and owned by this engine.
    pub(crate) fn child(&mut self, change: &Change, node: NodeId) -> Action {
        let now = self.now();
        let id = ActionId::from_uuid(new_id());
        self.children.open.insert(node, id);
        let Action { instance, principal, door, .. } = &self.action;
        let target = Target::Node(node);
        Action {
            cluster_id: self.subject.stored.then_some(self.subject.cluster.id),
            parent: Some(self.action.id),
            cause: Cause::Derived,
            inputs: change.inputs(),
            status: ActionStatus::Running,
            status_reason: "The action is being processed.".to_owned(),
            owner: self.action.owner,
            timeout: self.action.timeout,
            started_at: Some(now),
            ..Action::new(id, change.kind(), target, instance.clone(), principal.clone(), *door, now)
        }
    }

    /// Children for those of these nodes that need one.
    pub(crate) fn children_for(&mut self, change: &Change, nodes: &[NodeId]) -> Vec<Action> {
        let missing: Vec<NodeId> = nodes.iter().copied().filter(|id| self.needs_child(*id)).collect();
        missing.into_iter().map(|id| self.child(change, id)).collect()
    }

    /// Records that a node's child has ended.
    pub(crate) fn end_child(&mut self, node: NodeId, end: End) {
        let Some(child) = self.children.open.remove(&node) else { return };
        let ended = &mut self.journal.ended;
        match ended.iter_mut().find(|(same, _)| *same == end) {
            Some((_, children)) => children.push(child),
            None => ended.push((end, vec![child])),
        }
    }
}

/// The reason of a node that was excluded because its child action was cancelled.
pub(crate) fn excluded(child: ActionId) -> String {
    format!("its action {child} was cancelled")
}
