//! Records the results of starting and stopping single nodes.

use muster_core::action::ActionStatus;
use muster_core::backoff::Backoff;
use muster_core::event::Level;
use muster_core::ids::{ActionId, NodeId};
use muster_core::node::NodeStatus;
use muster_core::time::{TimeSpan, Timestamp};
use muster_store::commands::ActionEnd;

use crate::ports::provider::{NodeResult, ProviderError};
use crate::reconcile::FUTILE_ATTEMPTS;
use crate::reconcile::individual::Individual;
use crate::reconcile::individual::plan::Plan;
use crate::run::{Children, Journal, Members, excluded, succeeded};

impl Individual<'_> {
    /// Records that a node was started or stopped, or why it was not.
    pub(super) fn record_result(
        &mut self,
        NodeResult { node: id, result }: NodeResult,
        nodes: &mut Members,
        children: &mut Children,
        journal: &mut Journal,
        now: Timestamp,
    ) {
        match result {
            Ok(Some(physical_id)) => {
                self.stops.remove(&id);
                record_started(nodes, children, id, physical_id, now);
            }
            Ok(None) => {
                let stops = self.stops.entry(id).or_default();
                *stops += 1;
                // A node that still runs is not stopped again at once.
                let not_before = now.after(retry_delay(self.backoff, *stops));
                self.retry_state.not_stopped_before.insert(id, not_before);
                if let Some(node) = nodes.get_mut(id) {
                    node.physical_id = None;
                    node.updated_at = Some(now);
                }
            }
            Err(error) => {
                self.record_failure(id, &error, now);
                report_failure(nodes, children, journal, id, &error, now);
            }
        }
    }

    /// Decides when the node is retried, if at all.
    fn record_failure(&mut self, id: NodeId, error: &ProviderError, now: Timestamp) {
        if error.transient {
            let failures = self.failures.entry(id).or_default();
            *failures += 1;
            let not_before = now.after(retry_delay(self.backoff, *failures));
            self.retry_state.not_before.insert(id, not_before);
        } else {
            self.retry_state.given_up.insert(id, error.message.clone());
        }
    }

    /// Excludes nodes whose child actions were cancelled; the action continues with the others.
    pub(super) fn exclude(
        &mut self,
        cancelled: &[(NodeId, ActionId)],
        nodes: &mut Members,
        children: &mut Children,
        now: Timestamp,
    ) {
        for (id, child) in cancelled {
            let (status, reason) = (ActionStatus::Cancelled, "Action execution cancelled".to_owned());
            children.end(*id, ActionEnd { status, reason });
            let reason = excluded(*child);
            nodes.set_status(*id, NodeStatus::Error, &reason, now);
            self.retry_state.given_up.insert(*id, reason);
        }
    }

    /// Gives up nodes that still run although the provider acknowledged many stops; returns true if there are any.
    pub(super) fn give_up_stops(
        &mut self,
        plan: &Plan,
        nodes: &mut Members,
        children: &mut Children,
        journal: &mut Journal,
        now: Timestamp,
    ) -> bool {
        let futile = |id: &&NodeId| self.stops.get(id).is_some_and(|stops| *stops >= FUTILE_ATTEMPTS);
        let futile: Vec<NodeId> = plan.stop.iter().filter(futile).copied().collect();
        for id in &futile {
            let message =
                format!("still running after {FUTILE_ATTEMPTS} successful stop calls: end it by hand");
            let error = ProviderError::permanent("StopIgnored", message);
            self.record_failure(*id, &error, now);
            report_failure(nodes, children, journal, *id, &error, now);
        }
        !futile.is_empty()
    }
}

/// Returns the delay after a number of attempts in a row, with jitter.
fn retry_delay(backoff: Backoff, attempts: u32) -> TimeSpan {
    backoff.delay(attempts, fastrand::f64())
}

/// Records that a node runs.
pub(super) fn record_started(
    nodes: &mut Members,
    children: &mut Children,
    id: NodeId,
    physical_id: String,
    now: Timestamp,
) {
    let Some(node) = nodes.get_mut(id) else { return };
    let reason = node.start_reason();
    node.start(physical_id, now);
    children.end(id, succeeded(reason));
}

/// Records why a node was not started or stopped; a permanent failure ends its child action.
fn report_failure(
    nodes: &mut Members,
    children: &mut Children,
    journal: &mut Journal,
    id: NodeId,
    error: &ProviderError,
    now: Timestamp,
) {
    if !error.transient {
        children.end(id, ActionEnd { status: ActionStatus::Failed, reason: error.message.clone() });
    }
    let Some(node) = nodes.get_mut(id) else { return };
    if !error.transient {
        node.status = NodeStatus::Error;
    }
    node.status_reason.clone_from(&error.message);
    node.updated_at = Some(now);
    if !error.transient || error.is_node_exit() {
        let level = if error.transient { Level::Warn } else { Level::Error };
        journal.report_node(node, level, &error.reason, &error.message, now);
    }
}

#[cfg(test)]
mod tests;
