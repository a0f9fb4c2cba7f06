//! Chooses the nodes to remove, so that the remaining nodes stay spread.

use super::{Axis, Placement, PlacementCounts};
use crate::ids::NodeId;

/// The number of nodes to remove from each region or zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    axis: Axis,
    left: PlacementCounts,
    /// The number of nodes to remove that are in none of these domains.
    elsewhere: u32,
}

impl Quota {
    /// A quota of the numbers to remove from each domain, and of `count` nodes in all.
    pub fn new(axis: Axis, going: PlacementCounts, count: u32) -> Self {
        let named = going.values().fold(0_u32, |sum, going| sum.saturating_add(*going));
        Self { axis, left: going, elsewhere: count.saturating_sub(named) }
    }

    fn left(&mut self, place: &Placement) -> &mut u32 {
        let named = self.axis.name_in(place).and_then(|name| self.left.get_mut(name));
        named.unwrap_or(&mut self.elsewhere)
    }
}

/// Chooses `count` nodes in the given order, as the quotas allow.
///
/// If not all quotas can be met, the first ones take precedence.
pub fn choose(order: Vec<(NodeId, Placement)>, count: usize, quotas: &mut [Quota]) -> Vec<NodeId> {
    let (mut chosen, mut order) = (Vec::new(), order);
    for kept in (0..=quotas.len()).rev() {
        order.retain(|(id, place)| {
            let fits = chosen.len() < count && quotas[..kept].iter_mut().all(|quota| *quota.left(place) > 0);
            if fits {
                chosen.push(*id);
                for quota in &mut *quotas {
                    let left = quota.left(place);
                    *left = left.saturating_sub(1);
                }
            }
            !fits
        });
    }
    chosen
}
