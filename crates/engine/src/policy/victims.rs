//! Chooses the members to remove, so that the rest stays spread as policies decided.

use std::collections::HashMap;

use muster_core::candidates::{self, Candidate, Criterion};
use muster_core::ids::NodeId;
use muster_core::placement::{self, Axis, Placement, Quota};

use crate::intent::victims::random_rank;
use crate::policy::PolicyContext;

/// Chooses members of each group: by the criterion, from the regions and zones that earlier policies have decided.
pub(crate) fn chosen(
    context: &PolicyContext<'_>,
    going: &[(String, usize)],
    criterion: Criterion,
) -> Vec<NodeId> {
    let count: usize = going.iter().map(|(_, count)| count).sum();
    let mut quotas = quotas(context, u32::try_from(count).unwrap_or(u32::MAX));
    let mut chosen = Vec::new();
    for (group, count) in going {
        let members = || candidates::workers(context.nodes, Some(group));
        let candidates: Vec<Candidate> =
            members().map(|node| Candidate::from_node(node, (context.profile_created_at)(node))).collect();
        let mut places: HashMap<NodeId, Placement> =
            members().map(|node| (node.id, Placement::from_node(node))).collect();
        let order = candidates::choose(candidates, places.len(), criterion, random_rank);
        let order = order.into_iter().map(|id| (id, places.remove(&id).unwrap_or_default())).collect();
        chosen.extend(placement::choose(order, *count, &mut quotas));
    }
    chosen
}

/// Returns the quotas that placement policies decided; regions before zones.
fn quotas(context: &PolicyContext<'_>, count: u32) -> Vec<Quota> {
    let decided = |axis: Axis| {
        let counts = context.data.deletion.as_ref()?.counts(axis)?;
        Some(Quota::new(axis, counts.clone(), count))
    };
    [Axis::Region, Axis::Zone].into_iter().filter_map(decided).collect()
}
