//! Recreating a node: the old instance is stopped, and a new one is started in its place.

use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus, Seen};
use muster_core::time::{Span, Timestamp};
use serde_json::json;

use crate::action_data::Recreation;
use crate::actions::node::check::sighted;
use crate::ports::provider::RECREATE;
use crate::reconcile::individual::Goal;
use crate::run::{ActionRun, Stop};

/// How long to wait until the old instance is gone, and whether it is written off if it does not stop.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Patience {
    /// Seconds; none is the timeout of the action.
    pub(crate) delete_timeout: Option<u32>,
    pub(crate) force_recreate: Option<bool>,
}

/// Stops the old instance and starts a new one. The old instance is recorded, so that an engine that takes over stops
/// only that one.
pub(crate) async fn recreate(run: &mut ActionRun, node: &Node, patience: Patience) -> Result<(), Stop> {
    let kept = match run.data.recovery.clone() {
        Some(kept) => kept,
        None => begin(run, node, patience).await?,
    };
    let made = match reach(run, node.id, &kept, kept.until).await {
        Err(stop @ (Stop::TimedOut | Stop::Failed(_))) if is_there(run, node.id, &kept).await? => {
            stuck(run, node.id, &kept, patience, stop).await
        }
        // The old instance is gone in time: starting the new one may take as long as the action.
        Err(Stop::TimedOut) if run.time_left() > Span::default() => {
            run.leave_starts_unconfirmed([node.id]);
            reach(run, node.id, &kept, None).await
        }
        made => made,
    };
    made?;
    if kept.old.is_some() && run.node(node.id).is_some_and(|made| made.physical_id == kept.old) {
        let why = "what it was cannot be stopped, and nothing can take its place before".to_owned();
        return Err(failed(run, node.id, why));
    }
    if let Some(made) = run.node_mut(node.id) {
        made.data.insert("recovery".to_owned(), json!(RECREATE));
    }
    Ok(())
}

/// Stops the old instance and starts a new one, before the deadline if there is one.
async fn reach(
    run: &mut ActionRun,
    id: NodeId,
    kept: &Recreation,
    until: Option<Timestamp>,
) -> Result<(), Stop> {
    let again = kept.old.iter().filter(|_| !kept.written_off).map(|old| (id, old.clone())).collect();
    let deadline = until.filter(|_| kept.old.is_some());
    run.reach(&Goal { start: true, only: Some(id), again, deadline, ..Goal::default() }).await
}

/// Whether the old instance still runs.
async fn is_there(run: &mut ActionRun, id: NodeId, kept: &Recreation) -> Result<bool, Stop> {
    let Some(old) = &kept.old else { return Ok(false) };
    let seen = sighted(run, Some(id)).await?;
    Ok(matches!(seen.of(id), Seen::Running { physical_id } if physical_id == *old))
}

/// The old instance does not stop.
async fn stuck(
    run: &mut ActionRun,
    id: NodeId,
    kept: &Recreation,
    patience: Patience,
    stop: Stop,
) -> Result<(), Stop> {
    let force = patience.force_recreate == Some(true);
    match stop {
        Stop::TimedOut if run.time_left() == Span::default() => Err(stop),
        // Keep stopping it.
        Stop::TimedOut if force => reach(run, id, kept, None).await,
        Stop::TimedOut => {
            let seconds = patience.delete_timeout.unwrap_or_default();
            Err(failed(run, id, format!("it was not gone within {seconds} s (delete_timeout)")))
        }
        Stop::Failed(why) if !force => Err(failed(run, id, why)),
        _ => {
            let kept = Recreation { written_off: true, ..kept.clone() };
            write_off(run, id, &kept).await?;
            reach(run, id, &kept, None).await
        }
    }
}

async fn begin(run: &mut ActionRun, node: &Node, patience: Patience) -> Result<Recreation, Stop> {
    let seen = sighted(run, Some(node.id)).await?;
    let old = match seen.of(node.id) {
        Seen::Running { physical_id } => Some(physical_id),
        _ => None,
    };
    if let Some(node) = run.node_mut(node.id) {
        // Requested restarts do not count as crashes.
        node.starts.clear();
    }
    let until = patience.delete_timeout.map(|seconds| run.now().after(Span::from_secs(seconds)));
    let kept = Recreation { old, until, ..Recreation::default() };
    run.data.recovery = Some(kept.clone());
    run.commit(true).await?;
    Ok(kept)
}

/// Forgets the old instance, whatever is left of it.
async fn write_off(run: &mut ActionRun, id: NodeId, kept: &Recreation) -> Result<(), Stop> {
    if let Some(node) = run.node_mut(id) {
        node.physical_id = None;
    }
    run.set_status(id, NodeStatus::Recovering, "Recovery in progress");
    run.data.recovery = Some(kept.clone());
    run.commit(false).await
}

fn failed(run: &mut ActionRun, id: NodeId, why: String) -> Stop {
    run.set_status(id, NodeStatus::Error, &format!("Recovery failed: {why}"));
    Stop::Failed(why)
}
