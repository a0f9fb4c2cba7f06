//! Recreating a node: the old instance is stopped, and a new one is started in its place.

use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus, Observation};
use muster_core::time::{TimeSpan, Timestamp};
use serde_json::json;

use crate::action_data::Recreation;
use crate::actions::node::check::observe_now;
use crate::ports::provider::RECREATE;
use crate::reconcile::individual::{self, Goal};
use crate::run::{ActionRun, Members, Stop};

/// The conditions for stopping the old instance.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StopOptions {
    /// The longest wait until the old instance is gone, in seconds; none means the timeout of the action.
    pub(crate) delete_timeout: Option<u32>,
    /// True if the old instance is written off when stopping it fails.
    pub(crate) force_recreate: Option<bool>,
}

/// Stops the old instance and starts a new one. The old instance is recorded, so that an engine that takes over stops
/// only that one.
pub(crate) async fn recreate(
    run: &mut ActionRun,
    node: &Node,
    stop_options: StopOptions,
) -> Result<(), Stop> {
    let recreation = match run.data.recovery.clone() {
        Some(recreation) => recreation,
        None => begin(run, node, stop_options).await?,
    };
    let result = match stop_and_start(run, node.id, &recreation, recreation.until).await {
        Err(stop @ (Stop::TimedOut | Stop::Failed(_)))
            if old_instance_exists(run, node.id, &recreation).await? =>
        {
            handle_stuck(run, node.id, &recreation, stop_options, stop).await
        }
        // The old instance was gone in time: only the action's timeout limits the start of the new one.
        Err(Stop::TimedOut) if run.control.time_left() > TimeSpan::default() => {
            run.subject.nodes.leave_starts_unconfirmed([node.id]);
            stop_and_start(run, node.id, &recreation, None).await
        }
        result => result,
    };
    result?;
    if recreation.old.is_some()
        && run.subject.node(node.id).is_some_and(|result| result.physical_id == recreation.old)
    {
        let why = "the old instance cannot be stopped, so it cannot be replaced".to_owned();
        let now = run.now();
        return Err(failed(&mut run.subject.nodes, node.id, why, now));
    }
    if let Some(result) = run.subject.nodes.get_mut(node.id) {
        result.data.insert("recovery".to_owned(), json!(RECREATE));
    }
    Ok(())
}

/// Stops the old instance and starts a new one, before the deadline if there is one.
async fn stop_and_start(
    run: &mut ActionRun,
    id: NodeId,
    recreation: &Recreation,
    until: Option<Timestamp>,
) -> Result<(), Stop> {
    let recreate_ids =
        recreation.old.iter().filter(|_| !recreation.written_off).map(|old| (id, old.clone())).collect();
    let deadline = until.filter(|_| recreation.old.is_some());
    individual::reconcile(
        run,
        &Goal { start: true, only: Some(id), recreate: recreate_ids, deadline, ..Goal::default() },
    )
    .await
}

/// Returns true if the old instance still runs.
async fn old_instance_exists(run: &ActionRun, id: NodeId, recreation: &Recreation) -> Result<bool, Stop> {
    let Some(old) = &recreation.old else { return Ok(false) };
    let observed = observe_now(run, Some(id)).await?;
    Ok(matches!(observed.of(id), Observation::Running { physical_id } if physical_id == *old))
}

/// Fails, waits longer or writes the old instance off when it does not stop.
async fn handle_stuck(
    run: &mut ActionRun,
    id: NodeId,
    recreation: &Recreation,
    stop_options: StopOptions,
    stop: Stop,
) -> Result<(), Stop> {
    let (force, now) = (stop_options.force_recreate == Some(true), run.now());
    match stop {
        Stop::TimedOut if run.control.time_left() == TimeSpan::default() => Err(stop),
        // A forced recreation may use the rest of the action's timeout to stop the old instance.
        Stop::TimedOut if force => stop_and_start(run, id, recreation, None).await,
        Stop::TimedOut => {
            let seconds = stop_options.delete_timeout.unwrap_or_default();
            let why = format!("the old instance did not stop within {seconds} s (delete_timeout)");
            Err(failed(&mut run.subject.nodes, id, why, now))
        }
        Stop::Failed(why) if !force => Err(failed(&mut run.subject.nodes, id, why, now)),
        _ => {
            let recreation = Recreation { written_off: true, ..recreation.clone() };
            write_off(run, id, &recreation).await?;
            stop_and_start(run, id, &recreation, None).await
        }
    }
}

async fn begin(run: &mut ActionRun, node: &Node, stop_options: StopOptions) -> Result<Recreation, Stop> {
    let observed = observe_now(run, Some(node.id)).await?;
    let old = match observed.of(node.id) {
        Observation::Running { physical_id } => Some(physical_id),
        _ => None,
    };
    if let Some(node) = run.subject.nodes.get_mut(node.id) {
        // Requested restarts do not count as crashes.
        node.starts.clear();
    }
    let until = stop_options.delete_timeout.map(|seconds| run.now().after(TimeSpan::from_secs(seconds)));
    let recreation = Recreation { old, until, ..Recreation::default() };
    run.data.recovery = Some(recreation.clone());
    run.commit(true).await?;
    Ok(recreation)
}

/// Ignores the old instance from now on, so that a new one can start.
async fn write_off(run: &mut ActionRun, id: NodeId, recreation: &Recreation) -> Result<(), Stop> {
    if let Some(node) = run.subject.nodes.get_mut(id) {
        node.physical_id = None;
    }
    run.subject.nodes.set_status(id, NodeStatus::Recovering, "Recovery in progress", run.now());
    run.data.recovery = Some(recreation.clone());
    run.commit(false).await
}

fn failed(nodes: &mut Members, id: NodeId, why: String, now: Timestamp) -> Stop {
    nodes.set_status(id, NodeStatus::Error, &format!("Recovery failed: {why}"), now);
    Stop::Failed(why)
}
