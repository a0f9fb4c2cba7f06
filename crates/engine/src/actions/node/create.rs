//! Creation of a node, as an orphan or as a member.

use std::collections::HashSet;

use muster_core::node::{Node, NodeStatus};
use muster_core::time::Timestamp;

use crate::actions::node::target;
use crate::intent::naming;
use crate::intent::placements;
use crate::reconcile::individual::{self, Goal};
use crate::run::{ActionRun, Stop, Subject};

/// Creates the node; a future member is given its place in the cluster first.
pub(crate) async fn create(run: &mut ActionRun) -> Result<(), Stop> {
    let node = target(&run.subject)?;
    let begun = run.action.applied_at.is_some();
    if !begun && node.status != NodeStatus::Init {
        return Err(Stop::Failed("Node must be in INIT status".to_owned()));
    }
    if node.is_candidate() {
        admit_member(run, node.clone()).await?;
    }
    individual::reconcile(run, &Goal { start: true, only: Some(node.id), ..Goal::default() }).await
}

/// Gives a node its place if the cluster's bounds allow it; otherwise the node is rejected.
async fn admit_member(run: &mut ActionRun, node: Node) -> Result<(), Stop> {
    let group = run.subject.changed_group(&run.change)?;
    let larger = match run.subject.intent().after(&run.change, &run.data) {
        Ok(larger) => larger,
        Err(refused) => {
            let now = run.now();
            reject_candidate(&mut run.subject, &refused.to_string(), now);
            return Err(refused.into());
        }
    };
    run.subject.cluster = larger;
    let index = run.subject.cluster.next_index;
    run.subject.cluster.next_index = index.saturating_add(1);
    run.subject.cluster.generation += 1;
    let id = node.id;
    let place = placements::unused(&run.data).next();
    let node = placements::assign(node, place);
    run.subject.nodes.relocate(naming::with_place_and_name(&run.subject.cluster, node, &group, index));
    run.data.record_added(&[id]);
    run.commit(true).await
}

/// A node that gets no place in its cluster becomes an orphan in ERROR.
pub(crate) fn reject_candidate(subject: &mut Subject, why: &str, now: Timestamp) {
    if let Ok(node) = target(subject)
        && node.is_candidate()
    {
        subject.nodes.set_status(node.id, NodeStatus::Error, why, now);
        subject.nodes.orphan(&HashSet::from([node.id]), now);
    }
}
