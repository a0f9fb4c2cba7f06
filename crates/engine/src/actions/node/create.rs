//! Making a node, alone or as a member.

use std::collections::HashSet;

use muster_core::node::{Node, NodeStatus};

use crate::actions::node::target;
use crate::intent::naming;
use crate::intent::placements;
use crate::reconcile::individual::Goal;
use crate::run::{ActionRun, Stop};

/// Makes the node; one that is to be a member is given its place first.
pub(crate) async fn create(run: &mut ActionRun) -> Result<(), Stop> {
    let node = target(run)?;
    let begun = run.action.applied_at.is_some();
    if !begun && node.status != NodeStatus::Init {
        return Err(Stop::Failed("Node must be in INIT status".to_owned()));
    }
    if node.is_candidate() {
        take_in(run, node.clone()).await?;
    }
    run.reach(&Goal { start: true, only: Some(node.id), ..Goal::default() }).await
}

/// Gives a node its place, if there is room; otherwise it stays outside.
async fn take_in(run: &mut ActionRun, node: Node) -> Result<(), Stop> {
    let group = run.changed_group()?;
    let larger = match run.intent().after(&run.change, &run.data) {
        Ok(larger) => larger,
        Err(refused) => {
            turn_away(run, &refused);
            return Err(Stop::Failed(refused));
        }
    };
    run.subject.cluster = larger;
    let index = run.subject.cluster.next_index;
    run.subject.cluster.next_index = index.saturating_add(1);
    run.subject.cluster.generation += 1;
    let id = node.id;
    let place = placements::unused(&run.data).next();
    let node = placements::put(node, place);
    run.relocate(naming::placed(&run.subject.cluster, node, &group, index));
    run.record_added(&[id]);
    run.commit(true).await
}

/// A node that has no place in its cluster yet, and gets none, is in no cluster.
pub(crate) fn turn_away(run: &mut ActionRun, why: &str) {
    if let Ok(node) = target(run)
        && node.is_candidate()
    {
        run.set_status(node.id, NodeStatus::Error, why);
        run.move_out(&HashSet::from([node.id]));
    }
}
