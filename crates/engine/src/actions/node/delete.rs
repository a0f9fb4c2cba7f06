//! Removing a node.

use std::collections::HashSet;

use muster_core::membership::HEAD_STAYS;
use muster_core::node::{Node, NodeRole};

use crate::actions::deletion::{self, Deletion};
use crate::actions::node::target;
use crate::actions::resize;
use crate::reconcile::individual::Aim;
use crate::run::{ActionRun, Stop};

/// Ends the node and removes its row. A cluster has one less to have from then on, unless a policy wants it to stay.
pub(crate) async fn delete(run: &mut ActionRun) -> Result<(), Stop> {
    let node = target(run)?;
    if node.role == NodeRole::Head {
        return Err(Stop::Failed(HEAD_STAYS.to_owned()));
    }
    let mut smaller = run.cluster.clone();
    if let Some(group) = node.group.as_deref().filter(|_| run.stored && !node.is_candidate()) {
        let (members, limit) = (run.members_of(group), run.context.config.max_nodes_per_cluster);
        // Begun: it was looked at before, and the cluster may have other bounds by now.
        let fits = resize::by(&mut smaller, group, members, -1, limit);
        fits.or_else(|why| if run.action.applied_at.is_some() { Ok(()) } else { Err(Stop::Failed(why)) })?;
    }
    let leaving = HashSet::from([node.id]);
    deletion::prepare(run, &leaving, false).await?;
    let gone = run.reach(&Aim { leaving, only: Some(node.id), ..Aim::default() }).await;
    gone.map_err(failed)?;
    if Deletion::of(run).reduces {
        reduce(run, &node);
    }
    Ok(())
}

fn failed(stop: Stop) -> Stop {
    match stop {
        Stop::Failed(why) => Stop::Failed(format!("Node deletion failed. {why}")),
        other => other,
    }
}

fn reduce(run: &mut ActionRun, node: &Node) {
    let Some(group) = node.group.as_deref() else { return };
    if let Some(group) = resize::find_group(&mut run.cluster.groups, Some(group)) {
        group.desired = group.desired.saturating_sub(1);
        run.cluster.generation += 1;
    }
}
