//! Decides how many nodes are added to or removed from each region or zone.

use std::cmp::Reverse;

use super::PlacementCounts;

/// A region or zone with its share of the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// The share in proportion to the weights of the others; a weight of zero gets no nodes.
    pub weight: u32,
    /// The largest number of nodes in the region or zone.
    pub cap: Option<u32>,
}

/// Distributes new nodes in addition to the present ones; none if the caps leave no capacity for all of them.
///
/// Without caps, new nodes never raise a share above its part of the total, rounded up.
pub fn grow(shares: &[Share], present_counts: &PlacementCounts, count: u32) -> Option<PlacementCounts> {
    let mut present = present(shares, present_counts);
    let ideal = IdealShares::new(shares, present.iter().sum::<u64>() + u64::from(count));
    let mut plan: PlacementCounts = shares.iter().map(|share| (share.name.clone(), 0)).collect();
    for _ in 0..count {
        let open = shares.iter().enumerate().filter(|(index, share)| share.has_capacity(present[*index]));
        let next = open.max_by_key(|(index, share)| {
            (ideal.shortage(*index, present[*index]), share.weight, Reverse(*index))
        });
        let (index, share) = next?;
        present[index] += 1;
        *plan.entry(share.name.clone()).or_default() += 1;
    }
    Some(plan)
}

/// Decides how many nodes are removed from each share, at most those that exist. Nodes outside all shares
/// (`elsewhere`) are removed first, and are not in the result.
///
/// Without caps, removals never lower a share below its part of the rest, rounded down.
pub fn shrink(
    shares: &[Share],
    present_counts: &PlacementCounts,
    elsewhere: u32,
    count: u32,
) -> PlacementCounts {
    let mut present = present(shares, present_counts);
    let total: u64 = present.iter().sum();
    let going = u64::from(count.saturating_sub(elsewhere)).min(total);
    let ideal = IdealShares::new(shares, total - going);
    let mut plan: PlacementCounts = shares.iter().map(|share| (share.name.clone(), 0)).collect();
    for _ in 0..going {
        let some = shares.iter().enumerate().filter(|(index, _)| present[*index] > 0);
        let next = some.min_by_key(|(index, share)| {
            (ideal.shortage(*index, present[*index]), share.weight, Reverse(*index))
        });
        let Some((index, share)) = next else { break };
        present[index] -= 1;
        *plan.entry(share.name.clone()).or_default() += 1;
    }
    plan
}

fn present(shares: &[Share], present_counts: &PlacementCounts) -> Vec<u64> {
    shares.iter().map(|share| present_counts.get(&share.name).copied().unwrap_or_default().into()).collect()
}

impl Share {
    fn has_capacity(&self, present: u64) -> bool {
        self.weight > 0 && self.cap.is_none_or(|cap| present < u64::from(cap))
    }
}

/// The ideal parts of a total, by weight. What exceeds a cap is distributed by weight among the other shares. Parts
/// are multiples of a unit, so that the arithmetic is exact.
struct IdealShares {
    parts: Vec<i128>,
    unit: i128,
}

impl IdealShares {
    fn new(shares: &[Share], total: u64) -> Self {
        let mut capped: Vec<Option<u32>> = vec![None; shares.len()];
        let (mut rest, mut weights) =
            (i128::from(total), shares.iter().map(|share| i128::from(share.weight)).sum::<i128>());
        loop {
            let beyond = |(index, share): (usize, &Share)| {
                let cap = share.cap.filter(|_| capped[index].is_none() && share.weight > 0)?;
                (i128::from(cap) * weights < rest * i128::from(share.weight)).then_some((index, cap))
            };
            let Some((index, cap)) = shares.iter().enumerate().find_map(beyond) else { break };
            capped[index] = Some(cap);
            rest -= i128::from(cap);
            weights -= i128::from(shares[index].weight);
        }
        let unit = weights.max(1);
        let part = |(share, capped): (&Share, &Option<u32>)| {
            capped.map_or(rest * i128::from(share.weight), |cap| i128::from(cap) * unit)
        };
        Self { parts: shares.iter().zip(&capped).map(part).collect(), unit }
    }

    /// The number of missing nodes in units; negative if there are too many nodes.
    fn shortage(&self, index: usize, present: u64) -> i128 {
        self.parts[index] - i128::from(present) * self.unit
    }
}
