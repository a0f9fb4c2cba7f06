//! The child actions of an action: one for each node that the action changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use muster_core::action::{Action, ActionStatus, Cause, Target};
use muster_core::change::Change;
use muster_core::ids::{ActionId, ClusterId, NodeId};
use muster_core::time::Timestamp;
use muster_store::commands::{ActionEnd, Record};
use muster_store::reads::ActionQuery;

use crate::context::Context;
use crate::ids::new_id;
use crate::run::Stop;

/// The child actions of one action, by node.
pub(crate) struct Children {
    parent: Arc<Action>,
    /// The cluster of the nodes, if the cluster is stored.
    cluster_id: Option<ClusterId>,
    /// Children that have not ended.
    pub(crate) open: HashMap<NodeId, ActionId>,
    /// Nodes whose child has succeeded.
    pub(crate) done: HashSet<NodeId>,
    /// Nodes that were given up, with the reason: this action does not retry them.
    pub(crate) given_up: HashMap<NodeId, String>,
    /// Children whose end no commit has written yet.
    ended: Vec<(ActionEnd, Vec<ActionId>)>,
}

impl Children {
    /// Creates an empty set of children.
    pub(crate) fn new(parent: &Arc<Action>, cluster_id: Option<ClusterId>) -> Self {
        let (open, done, given_up) = (HashMap::new(), HashSet::new(), HashMap::new());
        Self { parent: Arc::clone(parent), cluster_id, open, done, given_up, ended: Vec::new() }
    }

    /// Loads the children that an earlier engine recorded; an action that is claimed for the first time has none.
    pub(super) async fn load(
        context: &Context,
        parent: &Arc<Action>,
        cluster_id: Option<ClusterId>,
        taken_over: bool,
    ) -> Result<Self, Stop> {
        let mut children = Self::new(parent, cluster_id);
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

    /// Returns the open children among these actions, with their nodes.
    pub(crate) fn open_among(&self, actions: &HashSet<ActionId>) -> Vec<(NodeId, ActionId)> {
        let open = self.open.iter().filter(|(_, child)| actions.contains(child));
        open.map(|(node, child)| (*node, *child)).collect()
    }

    /// Creates a child for a node, already running and owned by this engine; none if the node has an open child, or is
    /// the parent's own target.
    pub(crate) fn begin(&mut self, change: &Change, node: NodeId, now: Timestamp) -> Option<Action> {
        let target = Target::Node(node);
        if self.open.contains_key(&node) || self.parent.target == target {
            return None;
        }
        let id = ActionId::from_uuid(new_id());
        self.open.insert(node, id);
        let Action { instance, principal, door, .. } = self.parent.as_ref();
        Some(Action {
            cluster_id: self.cluster_id,
            parent: Some(self.parent.id),
            cause: Cause::Derived,
            inputs: change.inputs(),
            status: ActionStatus::Running,
            status_reason: "The action is being processed.".to_owned(),
            owner: self.parent.owner,
            timeout: self.parent.timeout,
            started_at: Some(now),
            ..Action::new(id, change.kind(), target, instance.clone(), principal.clone(), *door, now)
        })
    }

    /// Creates children for those of these nodes that need one.
    pub(crate) fn begin_all(&mut self, change: &Change, nodes: &[NodeId], now: Timestamp) -> Vec<Action> {
        nodes.iter().filter_map(|id| self.begin(change, *id, now)).collect()
    }

    /// Ends a node's child with the next commit.
    pub(crate) fn end(&mut self, node: NodeId, end: ActionEnd) {
        let Some(child) = self.open.remove(&node) else { return };
        match self.ended.iter_mut().find(|(same, _)| *same == end) {
            Some((_, children)) => children.push(child),
            None => self.ended.push((end, vec![child])),
        }
    }

    /// Returns true if ends of children are pending.
    pub(super) fn have_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Moves the pending ends into a commit.
    pub(super) fn drain_into(&mut self, record: &mut Record) {
        record.ended_children = std::mem::take(&mut self.ended);
    }
}

/// Returns the reason of a node that was excluded because its child action was cancelled.
pub(crate) fn excluded(child: ActionId) -> String {
    format!("its action {child} was cancelled")
}

#[cfg(test)]
mod tests;
