//! Making a node, alone or as a member.

use std::collections::HashSet;

use muster_core::node::{Node, NodeStatus};

use super::target;
use crate::handlers::resize;
use crate::members::Aim;
use crate::naming;
use crate::placements;
use crate::work::{Stop, Work};

/// Makes the node; one that is to be a member is given its place first.
pub(crate) async fn create(work: &mut Work) -> Result<(), Stop> {
    let node = target(work)?;
    let begun = work.action.applied_at.is_some();
    if !begun && node.status != NodeStatus::Init {
        return Err(Stop::Failed("Node must be in INIT status".to_owned()));
    }
    if node.is_candidate() {
        take_in(work, node.clone()).await?;
    }
    work.reach(&Aim { start: true, only: Some(node.id), ..Aim::default() }).await
}

/// Gives a node its place, if there is room; otherwise it stays outside.
async fn take_in(work: &mut Work, node: Node) -> Result<(), Stop> {
    let group = work.asked_group()?;
    let (members, limit) = (work.members_of(&group), work.inner.config.max_nodes_per_cluster);
    if let Err(refused) = resize::by(&mut work.cluster, &group, members, 1, limit) {
        turn_away(work, &refused);
        return Err(Stop::Failed(refused));
    }
    let index = work.cluster.next_index;
    work.cluster.next_index = index.saturating_add(1);
    work.cluster.generation += 1;
    let id = node.id;
    let place = placements::left(&work.data).next();
    let node = placements::put(node, place);
    work.relocate(naming::placed(&work.cluster, node, &group, index));
    work.note_created(&[id]);
    work.commit(true).await
}

/// A node that has no place in its cluster yet, and gets none, is in no cluster.
pub(crate) fn turn_away(work: &mut Work, why: &str) {
    if let Ok(node) = target(work)
        && node.is_candidate()
    {
        work.settle(node.id, NodeStatus::Error, why);
        work.move_out(&HashSet::from([node.id]));
    }
}
