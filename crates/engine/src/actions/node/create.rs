//! Creation of a node, as an orphan or as a member.

use std::collections::HashSet;

use muster_core::cluster::Cluster;
use muster_core::node::{Node, NodeStatus};
use muster_core::time::Timestamp;

use crate::actions::node::target;
use crate::intent::naming;
use crate::intent::placements;
use crate::reconcile::individual::{self, Goal};
use crate::run::{ActionRun, RunSubject, Stop};

/// Creates the node; a candidate gets its group and index in the cluster first.
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

/// Gives a candidate its group and index if the cluster's bounds allow it; otherwise rejects the candidate.
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
    let index = larger.next_index;
    run.subject.change_intent(Cluster { next_index: index.saturating_add(1), ..larger });
    let id = node.id;
    let place = placements::unused(&run.data).next();
    let node = placements::assign(node, place);
    run.subject.nodes.relocate(naming::with_place_and_name(&run.subject.cluster, node, &group, index));
    run.data.record_added(&[id]);
    run.commit(true).await
}

/// Turns a candidate that its cluster cannot take into an orphan in ERROR.
pub(crate) fn reject_candidate(subject: &mut RunSubject, why: &str, now: Timestamp) {
    if let Ok(node) = target(subject)
        && node.is_candidate()
    {
        subject.nodes.set_status(node.id, NodeStatus::Error, why, now);
        subject.nodes.orphan(&HashSet::from([node.id]), now);
    }
}
