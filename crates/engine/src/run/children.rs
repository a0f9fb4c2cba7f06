//! The parts of an action: one a node that it changes.

use std::collections::{HashMap, HashSet};

use muster_core::action::{Action, ActionStatus, Cause, Fence, Target};
use muster_core::change::Change;
use muster_core::ids::{ActionId, NodeId};
use muster_core::time::Span;
use muster_store::commands::End;
use muster_store::reads::ActionQuery;
use serde_json::{Map, Value};

use crate::context::Context;
use crate::ids::new_id;
use crate::run::{ActionRun, Stop};

impl ActionRun {
    /// Nodes that somebody said to leave out, and the children that stand for that.
    pub(crate) fn cancelled_children(&self) -> Vec<(NodeId, ActionId)> {
        let told = self.told.lock();
        if told.cancelled_children.is_empty() {
            return Vec::new();
        }
        let cancelled = |(_, child): &(&NodeId, &ActionId)| told.cancelled_children.contains(child);
        self.children.iter().filter(cancelled).map(|(node, child)| (*node, *child)).collect()
    }

    /// A child for a node, already running under this action.
    pub(crate) fn child(&mut self, change: &Change, node: NodeId) -> Action {
        let now = self.now();
        let id = ActionId::from_uuid(new_id());
        self.children.insert(node, id);
        Action {
            id,
            kind: change.kind(),
            version: 1,
            target: Target::Node(node),
            cluster_id: self.stored.then_some(self.cluster.id),
            instance: self.action.instance.clone(),
            parent: Some(self.action.id),
            cause: Cause::Derived,
            door: self.action.door,
            reason: String::new(),
            principal: self.action.principal.clone(),
            inputs: change.inputs(),
            outputs: Value::Object(Map::new()),
            data: Value::Object(Map::new()),
            status: ActionStatus::Running,
            status_reason: "The action is being processed.".to_owned(),
            control: None,
            owner: self.action.owner,
            fence: Fence(0),
            tries: 0,
            not_before: None,
            timeout: self.action.timeout,
            suspended_for: Span::default(),
            created_at: now,
            started_at: Some(now),
            applied_at: None,
            ended_at: None,
            updated_at: now,
        }
    }

    /// Children for those of these nodes that have none; a node's own action is none of its own.
    pub(crate) fn children_for(&mut self, change: &Change, nodes: &[NodeId]) -> Vec<Action> {
        let missing: Vec<NodeId> = nodes.iter().copied().filter(|id| self.needs_child(*id)).collect();
        missing.into_iter().map(|id| self.child(change, id)).collect()
    }

    /// Notes that a node's child has ended.
    pub(crate) fn end_child(&mut self, node: NodeId, end: End) {
        let Some(child) = self.children.remove(&node) else { return };
        match self.ended.iter_mut().find(|(same, _)| *same == end) {
            Some((_, children)) => children.push(child),
            None => self.ended.push((end, vec![child])),
        }
    }
}

/// Children by what is left of them: those that are open, and nodes that were given up, with the reason.
#[derive(Default)]
pub(crate) struct Children {
    pub(crate) open: HashMap<NodeId, ActionId>,
    pub(crate) done: HashSet<NodeId>,
    pub(crate) given_up: HashMap<NodeId, String>,
}

pub(crate) async fn children_of(context: &Context, parent: ActionId) -> Result<Children, Stop> {
    let query = ActionQuery { parent: Some(parent), ..ActionQuery::default() };
    let mut children = Children::default();
    for child in context.store.actions(&query).await?.items {
        let Target::Node(node) = child.target else { continue };
        match child.status {
            ActionStatus::Succeeded => drop(children.done.insert(node)),
            ActionStatus::Failed => drop(children.given_up.insert(node, child.status_reason)),
            ActionStatus::Cancelled => drop(children.given_up.insert(node, left_out(child.id))),
            _ => drop(children.open.insert(node, child.id)),
        }
    }
    Ok(children)
}

/// Why a node stays as it is whose child was cancelled.
pub(crate) fn left_out(child: ActionId) -> String {
    format!("its action {child} was cancelled")
}
