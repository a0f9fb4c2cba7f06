//! Removing a node.

use std::collections::HashSet;

use muster_core::membership::HEAD_STAYS;
use muster_core::node::{Node, NodeRole};

use super::target;
use crate::handlers::deletion::{self, Deletion};
use crate::handlers::resize;
use crate::members::Aim;
use crate::work::{Stop, Work};

/// Ends the node and removes its row. A cluster has one less to have from then on, unless a policy wants it to stay.
pub(crate) async fn delete(work: &mut Work) -> Result<(), Stop> {
    let node = target(work)?;
    if node.role == NodeRole::Head {
        return Err(Stop::Failed(HEAD_STAYS.to_owned()));
    }
    let mut smaller = work.cluster.clone();
    if let Some(group) = node.group.as_deref().filter(|_| work.stored && !node.is_candidate()) {
        let (members, limit) = (work.members_of(group), work.inner.config.max_nodes_per_cluster);
        // Begun: it was looked at before, and the cluster may have other bounds by now.
        let fits = resize::by(&mut smaller, group, members, -1, limit);
        fits.or_else(|why| if work.action.applied_at.is_some() { Ok(()) } else { Err(Stop::Failed(why)) })?;
    }
    let leaving = HashSet::from([node.id]);
    deletion::prepare(work, &leaving, false).await?;
    let gone = work.reach(&Aim { leaving, only: Some(node.id), ..Aim::default() }).await;
    gone.map_err(failed)?;
    if Deletion::of(work).reduces {
        reduce(work, &node);
    }
    Ok(())
}

fn failed(stop: Stop) -> Stop {
    match stop {
        Stop::Failed(why) => Stop::Failed(format!("Node deletion failed. {why}")),
        other => other,
    }
}

fn reduce(work: &mut Work, node: &Node) {
    let Some(group) = node.group.as_deref() else { return };
    if let Some(group) = resize::find_group(&mut work.cluster.groups, Some(group)) {
        group.desired = group.desired.saturating_sub(1);
        work.cluster.generation += 1;
    }
}
