//! Results of single nodes.

use muster_core::action::ActionStatus;
use muster_core::event::Level;
use muster_core::ids::NodeId;
use muster_core::node::NodeStatus;
use muster_core::time::Timestamp;
use muster_store::commands::End;

use crate::events;
use crate::ports::provider::{NodeResult, ProviderError};
use crate::reconcile::FUTILE_ATTEMPTS;
use crate::reconcile::individual::Individual;
use crate::reconcile::individual::plan::Plan;
use crate::run::{ActionRun, excluded, succeeded};

impl ActionRun {
    pub(crate) fn record_result(
        &mut self,
        NodeResult { node: id, result }: NodeResult,
        strategy: &mut Individual<'_>,
    ) {
        let now = self.now();
        match result {
            Ok(Some(physical_id)) => {
                strategy.stops.remove(&id);
                self.started(id, physical_id, now);
            }
            Ok(None) => {
                let stops = strategy.stops.entry(id).or_default();
                *stops += 1;
                // If it still runs, it is not stopped again at once.
                let recreate = now.after(self.context.config.retry_delay(*stops));
                strategy.retry_state.not_stopped_before.insert(id, recreate);
                if let Some(node) = self.node_mut(id) {
                    node.physical_id = None;
                    node.updated_at = Some(now);
                }
            }
            Err(error) => self.failed(id, &error, strategy, now),
        }
    }

    pub(crate) fn started(&mut self, id: NodeId, physical_id: String, now: Timestamp) {
        let Some(node) = self.node_mut(id) else { return };
        let reason = node.start_reason();
        node.start(physical_id, now);
        self.end_child(id, succeeded(reason));
    }

    pub(crate) fn failed(
        &mut self,
        id: NodeId,
        error: &ProviderError,
        strategy: &mut Individual<'_>,
        now: Timestamp,
    ) {
        if error.transient {
            let tries = strategy.failures.entry(id).or_default();
            *tries += 1;
            strategy.retry_state.not_before.insert(id, now.after(self.context.config.retry_delay(*tries)));
        } else {
            strategy.retry_state.given_up.insert(id, error.message.clone());
            self.end_child(id, End { status: ActionStatus::Failed, reason: error.message.clone() });
        }
        let (permanent, level) = (!error.transient, if error.transient { Level::Warn } else { Level::Error });
        if let Some(node) = self.node_mut(id) {
            if permanent {
                node.status = NodeStatus::Error;
            }
            node.status_reason.clone_from(&error.message);
            node.updated_at = Some(now);
            let node = node.clone();
            if permanent || error.is_node_exit() {
                let (action, reason) = (Some(&self.action), &error.reason);
                let event = events::of_node(action, &node, level, reason, &error.message, now);
                self.journal.events.push(event);
            }
        }
    }

    /// Excludes nodes whose child actions were cancelled; the action continues with the others.
    pub(crate) fn leave_out_cancelled(&mut self, strategy: &mut Individual<'_>) {
        let now = self.now();
        for (id, child) in self.cancelled_children() {
            let reason = excluded(child);
            self.end_child(
                id,
                End { status: ActionStatus::Cancelled, reason: "Action execution cancelled".to_owned() },
            );
            if let Some(node) = self.node_mut(id) {
                node.status = NodeStatus::Error;
                node.status_reason.clone_from(&reason);
                node.updated_at = Some(now);
            }
            strategy.retry_state.given_up.insert(id, reason);
        }
    }

    /// Gives up nodes that still run although the provider acknowledged many stops.
    pub(crate) fn give_up_stops(&mut self, plan: &Plan, strategy: &mut Individual<'_>) -> bool {
        let now = self.now();
        let futile = |id: &&NodeId| strategy.stops.get(id).is_some_and(|stops| *stops >= FUTILE_ATTEMPTS);
        let futile: Vec<NodeId> = plan.stop.iter().filter(futile).copied().collect();
        for id in &futile {
            let message =
                format!("it was stopped {FUTILE_ATTEMPTS} times, each time with success, and is still there");
            self.failed(*id, &ProviderError::permanent("StopIgnored", message), strategy, now);
        }
        !futile.is_empty()
    }
}
