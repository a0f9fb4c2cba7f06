//! Deletion of a node.

use std::collections::HashSet;

use muster_core::membership::HEAD_STAYS;
use muster_core::node::NodeRole;

use crate::actions::member_removal;
use crate::actions::node::target;
use crate::intent::{reduces, subtract};
use crate::reconcile::individual::{self, Goal};
use crate::run::{ActionRun, Stop};

/// Deletes the node and its row. The cluster's desired size shrinks by one, unless a policy keeps it.
pub(crate) async fn delete(run: &mut ActionRun) -> Result<(), Stop> {
    let node = target(&run.subject)?;
    if node.role == NodeRole::Head {
        return Err(Stop::Failed(HEAD_STAYS.to_owned()));
    }
    // A begun action was checked already, and the bounds may have changed since.
    let checked = run.action.applied_at.is_some() || !run.subject.stored || node.is_candidate();
    if !checked {
        run.subject.intent().without(std::iter::once(&node), &run.data)?;
    }
    let leaving = HashSet::from([node.id]);
    member_removal::prepare(run, &leaving, false).await?;
    let gone = individual::reconcile(run, &Goal { leaving, only: Some(node.id), ..Goal::default() }).await;
    gone.map_err(failed)?;
    if reduces(&run.data)
        && let Some(group) = &node.group
    {
        subtract(&mut run.subject.cluster, group, 1);
        run.subject.cluster.generation += 1;
    }
    Ok(())
}

fn failed(stop: Stop) -> Stop {
    match stop {
        Stop::Failed(why) => Stop::Failed(format!("Node deletion failed. {why}")),
        other => other,
    }
}
