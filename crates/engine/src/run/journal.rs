//! Reports that the next commits of an action write: events, outputs, the object of its cluster, and changes of policy
//! bindings.

use std::sync::Arc;

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::event::{Event, Level};
use muster_core::ids::ClusterId;
use muster_core::node::Node;
use muster_core::restart::ReplacedHead;
use muster_core::time::Timestamp;
use muster_store::commands::BindingChange;
use serde_json::{Map, Value};

use crate::events;

/// The reports that no commit has written yet.
pub(crate) struct Journal {
    /// The action that the events belong to.
    action: Arc<Action>,
    /// Written with the next commit.
    pub(crate) events: Vec<Event>,
    /// The object of a delegated cluster as APIs show it, written with the next commit.
    pub(crate) object: Option<(ClusterId, Value)>,
    /// Written with the end of the action.
    pub(crate) bindings: Vec<BindingChange>,
    /// The outputs of the action.
    outputs: Map<String, Value>,
    /// True if no commit has written these outputs yet.
    outputs_changed: bool,
}

impl Journal {
    pub(crate) fn new(action: Arc<Action>) -> Self {
        let outputs = action.outputs.as_object().cloned().unwrap_or_default();
        Self {
            action,
            events: Vec::new(),
            object: None,
            bindings: Vec::new(),
            outputs,
            outputs_changed: false,
        }
    }

    /// Reports the head that the action is about to replace, unless an earlier attempt has.
    pub(crate) fn report_replaced_head(&mut self, head: &ReplacedHead) {
        if !self.outputs.contains_key(ReplacedHead::OUTPUT) {
            // Texts and a number: serializing them cannot fail.
            self.set_output(ReplacedHead::OUTPUT, serde_json::to_value(head).unwrap_or_default());
        }
    }

    /// Sets an output of the action; the next commit writes it.
    pub(crate) fn set_output(&mut self, key: &str, value: Value) {
        self.outputs.insert(key.to_owned(), value);
        self.outputs_changed = true;
    }

    /// Returns true if the action has this output.
    pub(crate) fn has_output(&self, key: &str) -> bool {
        self.outputs.contains_key(key)
    }

    /// Returns the outputs, if no commit has written them yet.
    pub(crate) fn take_outputs(&mut self) -> Option<Value> {
        std::mem::take(&mut self.outputs_changed).then(|| Value::Object(self.outputs.clone()))
    }

    /// Adds an event about a node.
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

    /// Adds an event about the cluster.
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
