//! Making a node anew: what it was is stopped, and another one is started in its place.

use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeStatus, Seen};
use muster_core::time::{Span, Timestamp};
use serde_json::json;

use crate::action_data::Recreation;
use crate::actions::node::check::sighted;
use crate::ports::provider::RECREATE;
use crate::reconcile::individual::Goal;
use crate::run::{ActionRun, Stop};

/// How long the old node is waited for, and whether it is written off if it does not stop.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Patience {
    /// Seconds; as long as the action may take if nothing is said.
    pub(crate) delete_timeout: Option<u32>,
    pub(crate) force_recreate: Option<bool>,
}

/// Stops what is there and starts it anew. What it was is kept, so that only that is stopped, whoever goes on.
pub(crate) async fn recreate(run: &mut ActionRun, node: &Node, patience: Patience) -> Result<(), Stop> {
    let kept = match run.data.recovery.clone() {
        Some(kept) => kept,
        None => begin(run, node, patience).await?,
    };
    let made = match reach(run, node.id, &kept, kept.until).await {
        Err(stop @ (Stop::TimedOut | Stop::Failed(_))) if is_there(run, node.id, &kept).await? => {
            stuck(run, node.id, &kept, patience, stop).await
        }
        // What it was is gone in time: making another may take as long as the action may.
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

/// Stops what it was and starts it, before a moment if there is one.
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

/// Whether what it was is still there.
async fn is_there(run: &mut ActionRun, id: NodeId, kept: &Recreation) -> Result<bool, Stop> {
    let Some(old) = &kept.old else { return Ok(false) };
    let seen = sighted(run, Some(id)).await?;
    Ok(matches!(seen.of(id), Seen::Running { physical_id } if physical_id == *old))
}

/// What it was does not go.
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
        // It goes on being stopped.
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
        // Asked for: it did not crash.
        node.starts.clear();
    }
    let until = patience.delete_timeout.map(|seconds| run.now().after(Span::from_secs(seconds)));
    let kept = Recreation { old, until, ..Recreation::default() };
    run.data.recovery = Some(kept.clone());
    run.commit(true).await?;
    Ok(kept)
}

/// From now on the node is nothing, whatever is left of it.
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
