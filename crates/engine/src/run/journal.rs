//! What an action reports with its next commits: events, the object of its cluster, and changes of policy bindings.

use std::sync::Arc;

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::event::{Event, Level};
use muster_core::ids::ClusterId;
use muster_core::node::Node;
use muster_core::time::Timestamp;
use muster_store::commands::BindingChange;
use serde_json::Value;

use crate::events;

/// Everything that no commit has written yet.
pub(crate) struct Journal {
    /// The action that the events belong to.
    action: Arc<Action>,
    /// Written with the next commit.
    pub(crate) events: Vec<Event>,
    /// The object of a delegated cluster as APIs show it, written with the next commit.
    pub(crate) object: Option<(ClusterId, Value)>,
    /// Written with the end of the action.
    pub(crate) bindings: Vec<BindingChange>,
}

impl Journal {
    pub(crate) fn new(action: Arc<Action>) -> Self {
        Self { action, events: Vec::new(), object: None, bindings: Vec::new() }
    }

    /// Reports something about a node.
    pub(crate) fn report_node(
        &mut self,
        node: &Node,
        level: Level,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) {
        self.events.push(events::of_node(Some(&self.action), node, level, reason, message, now));
    }

    /// Reports something about the cluster.
    pub(crate) fn report_cluster(
        &mut self,
        cluster: &Cluster,
        level: Level,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) {
        self.events.push(events::of_cluster(Some(&self.action), cluster, level, reason, message, now));
    }
}
