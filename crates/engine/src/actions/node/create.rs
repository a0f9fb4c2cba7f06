//! Creation of a node, as an orphan or as a member.

use std::collections::HashSet;

use muster_core::node::{Node, NodeStatus};

use crate::actions::node::target;
use crate::intent::naming;
use crate::intent::placements;
use crate::reconcile::individual::Goal;
use crate::run::{ActionRun, Stop};

/// Creates the node; a future member is given its place in the cluster first.
pub(crate) async fn create(run: &mut ActionRun) -> Result<(), Stop> {
    let node = target(run)?;
    let begun = run.action.applied_at.is_some();
    if !begun && node.status != NodeStatus::Init {
        return Err(Stop::Failed("Node must be in INIT status".to_owned()));
    }
    if node.is_candidate() {
        admit_member(run, node.clone()).await?;
    }
    run.reconcile(&Goal { start: true, only: Some(node.id), ..Goal::default() }).await
}

/// Gives a node its place if the cluster's bounds allow it; otherwise the node is rejected.
async fn admit_member(run: &mut ActionRun, node: Node) -> Result<(), Stop> {
    let group = run.changed_group()?;
    let larger = match run.intent().after(&run.change, &run.data) {
        Ok(larger) => larger,
        Err(refused) => {
            reject_candidate(run, &refused);
            return Err(Stop::Failed(refused));
        }
    };
    run.subject.cluster = larger;
    let index = run.subject.cluster.next_index;
    run.subject.cluster.next_index = index.saturating_add(1);
    run.subject.cluster.generation += 1;
    let id = node.id;
    let place = placements::unused(&run.data).next();
    let node = placements::assign(node, place);
    run.relocate(naming::with_place_and_name(&run.subject.cluster, node, &group, index));
    run.record_added(&[id]);
    run.commit(true).await
}

/// A node that gets no place in its cluster becomes an orphan in ERROR.
pub(crate) fn reject_candidate(run: &mut ActionRun, why: &str) {
    if let Ok(node) = target(run)
        && node.is_candidate()
    {
        run.set_status(node.id, NodeStatus::Error, why);
        run.move_out(&HashSet::from([node.id]));
    }
}
