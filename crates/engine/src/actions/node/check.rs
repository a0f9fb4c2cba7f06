//! Checks of nodes; the results are recorded in their rows.

use muster_core::change::{Change, Check};
use muster_core::event::Level;
use muster_core::ids::NodeId;
use muster_core::node::{NodeStatus, Observation};
use muster_core::time::Timestamp;
use muster_store::commands::ForgetChecks;

use crate::actions::node::{target, target_id};
use crate::events::reason;
use crate::ports::provider::Observed;
use crate::reconcile::individual::observe;
use crate::run::{ActionRun, Journal, RunSubject, Stop, succeeded};

/// Checks one node.
pub(crate) async fn check(run: &mut ActionRun) -> Result<(), Stop> {
    let node = target(&run.subject)?;
    if node.physical_id.is_none() {
        return Err(Stop::Failed(
            "Node check failed. The node was never created, or was deleted.".to_owned(),
        ));
    }
    let observed = check_health(run, Some(node.id)).await?;
    if let Observation::Unknown { reason } = observed.of(node.id) {
        return Err(Stop::Requeue(reason));
    }
    let now = run.now();
    record_observation(&mut run.subject, &mut run.journal, node.id, &observed, now);
    Ok(())
}

/// Checks all members, each with a child action.
pub(crate) async fn check_all(run: &mut ActionRun, delete_earlier: bool) -> Result<(), Stop> {
    if run.subject.stored && delete_earlier {
        let (ticket, cluster) = (run.control.ticket(), run.subject.cluster.id);
        run.context.store.forget_checks(ForgetChecks { ticket, cluster }).await?;
    }
    let ids: Vec<NodeId> = run.subject.nodes.ids();
    let children = run.children.begin_all(&Change::CheckNode(Check::default()), &ids, run.now());
    if !children.is_empty() {
        run.commit_with(children, false).await?;
    }
    let observed = observe_all(run).await?;
    for id in ids {
        let message = match observed.of(id) {
            Observation::Unknown { reason } => {
                format!("Node status unchanged, because its state is unknown: {reason}")
            }
            Observation::Starting { .. } => {
                "Node status unchanged, because the node is still starting.".to_owned()
            }
            _ => "Node check succeeded.".to_owned(),
        };
        run.children.end(id, succeeded(&message));
    }
    Ok(())
}

/// Checks all members as a step of another action.
pub(crate) async fn observe_all(run: &mut ActionRun) -> Result<Observed, Stop> {
    let observed = check_health(run, None).await?;
    let now = run.now();
    for id in run.subject.nodes.ids() {
        record_observation(&mut run.subject, &mut run.journal, id, &observed, now);
    }
    observed.write_contact_to(&mut run.subject.cluster);
    Ok(observed)
}

/// Checks the health of nodes; the action is requeued if the provider cannot answer.
pub(crate) async fn check_health(run: &ActionRun, only: Option<NodeId>) -> Result<Observed, Stop> {
    let observed =
        run.control.call_provider(observe::check_health(run.provider.as_ref(), &run.subject, only)).await?;
    observed.map_err(|error| Stop::Requeue(error.message))
}

/// Observes nodes; the action is requeued if the provider cannot answer.
pub(crate) async fn observe_now(run: &ActionRun, only: Option<NodeId>) -> Result<Observed, Stop> {
    debug_assert!(
        only.is_none() || only == target_id(&run.subject).ok(),
        "only a node's own action observes one"
    );
    let observed =
        run.control.call_provider(observe::observe(run.provider.as_ref(), &run.subject, only)).await?;
    observed.map_err(|error| Stop::Requeue(error.message))
}

/// Records a node's status. A node that is starting or unknown stays unchanged.
fn record_observation(
    subject: &mut RunSubject,
    journal: &mut Journal,
    id: NodeId,
    observed: &Observed,
    now: Timestamp,
) {
    let heals = subject.capabilities.heals_by_default;
    let observation = observed.of(id);
    let why = observation.loss().map(str::to_owned);
    if why.is_none() && !matches!(observation, Observation::Running { .. }) {
        return;
    }
    let (status, message) = match why {
        None => (NodeStatus::Active, "Check: Node is ACTIVE."),
        Some(_) => (NodeStatus::Error, "Check: Node is not ACTIVE."),
    };
    let absent = observation == Observation::Absent;
    // After a reboot of the host, nodes are recovered only on a user's request.
    let ended_with_machine = observation == Observation::HostRestarted;
    let Some(node) = subject.nodes.get_mut(id) else { return };
    let worked = node.was_working();
    if !(status == NodeStatus::Active && node.status == NodeStatus::Warning) {
        node.status = status;
    }
    message.clone_into(&mut node.status_reason);
    node.updated_at = Some(now);
    if absent {
        node.physical_id = None;
    }
    // The status reason is a fixed text that clients expect; an event gives the cause, once per loss.
    if let Some(why) = why.filter(|_| worked) {
        // The observer heals only losses that it records itself: mark this one, so that it is healed too.
        node.set_healing_due(heals && !ended_with_machine);
        journal.report_node(node, Level::Warn, reason::NODE_LOST, &why, now);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_core::action::ActionKind;
    use muster_core::node::Node;
    use muster_core::sample;
    use rstest::rstest;

    use super::*;
    use crate::ports::provider::Membership;
    use crate::run::sample::subject;

    #[rstest]
    #[case::lost(Observation::Absent, true)]
    #[case::ended_with_its_machine(Observation::HostRestarted, false)]
    fn a_loss_that_a_check_finds_is_healed_unless_the_machine_was_restarted(
        #[case] observation: Observation,
        #[case] heals: bool,
    ) {
        let node = Node { status: NodeStatus::Active, ..sample::node(1) };
        let id = node.id;
        let mut subject = subject(vec![node], Membership::Individual);
        let action = sample::action(1, ActionKind::ClusterCheck, subject.cluster.id);
        let observed = Observed { nodes: [(id, observation)].into(), ..Observed::default() };
        let mut journal = Journal::new(Arc::new(action));
        record_observation(&mut subject, &mut journal, id, &observed, Timestamp::from_micros(1));
        let node = subject.nodes.get(id).expect("the node");
        assert_eq!((node.status, node.is_healing_due()), (NodeStatus::Error, heals));
    }
}
