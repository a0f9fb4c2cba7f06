//! Computes a cluster as it will be after a change. Pure: the same inputs give the same cluster; only `naming` draws
//! ids and random letters.
//!
//! [`Intent::after`] is the only place that computes this: for the service layer, which refuses early, for
//! admission, policies, capacity and both kinds of membership.

mod decided;
mod error;
pub(crate) mod naming;
pub(crate) mod orphan;
pub(crate) mod placements;
pub mod recipe;
mod update;
pub(crate) mod victims;

use std::collections::BTreeMap;

use muster_core::candidates;
use muster_core::change::{AddNodes, Change, ClusterUpdate, RemoveNodes, ResizeGroup, Scale};
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::node::Node;
use muster_core::resize::{Resize, Sizes};

use crate::action_data::ActionData;

pub(crate) use decided::{size_changes, with_sizes};
pub use error::IntentError;
pub(crate) use update::merge;
pub use update::properties_after;

/// The baseline that a change of sizes is counted from.
#[derive(Debug, Clone, Copy)]
pub enum Baseline<'a> {
    /// The members that exist, where Muster starts and stops each.
    Members(&'a [Node]),
    /// The number of members of the changed group, counted in the database.
    Count(u32),
    /// The desired size in the spec of record: members may still be starting, or were not read.
    Desired,
}

/// A cluster before a change, with the baseline and the limit of the change.
#[derive(Debug, Clone, Copy)]
pub struct Intent<'a> {
    /// The cluster before the change.
    pub cluster: &'a Cluster,
    /// The baseline that changes of sizes are counted from.
    pub baseline: Baseline<'a>,
    /// The most nodes that any cluster may have.
    pub limit: u32,
}

impl Intent<'_> {
    /// Returns the cluster after a change, or the reason of a refusal. A count that policies decided takes precedence
    /// over the requested one.
    pub fn after(&self, change: &Change, decided: &ActionData) -> Result<Cluster, IntentError> {
        match change {
            Change::UpdateCluster(update) => {
                let updated = self.with_groups(properties_after(self.cluster, change)?, update)?;
                match update.resize {
                    Some(resize) => Intent { cluster: &updated, ..*self }.resized(None, |_| resize),
                    None => Ok(updated),
                }
            }
            Change::Resize(ResizeGroup { group, resize, .. }) => self.resized(group.as_deref(), |_| *resize),
            Change::ScaleOut(Scale { count, group, .. }) => {
                let decided = decided.creation.as_ref().and_then(|creation| creation.count);
                self.grown(group.as_deref(), i64::from(decided.or(*count).unwrap_or(1)))
            }
            Change::ScaleIn(Scale { count, group, .. }) => {
                let decided = decided.deletion.as_ref().and_then(|deletion| deletion.count);
                self.grown(group.as_deref(), -i64::from(decided.or(*count).unwrap_or(1)))
            }
            Change::AddNodes(AddNodes { nodes, group }) => {
                self.grown(group.as_deref(), i64::try_from(nodes.len()).unwrap_or(i64::MAX))
            }
            Change::RemoveNodes(RemoveNodes { nodes, .. }) => {
                let removed = self.members().iter().filter(|node| nodes.contains(&node.id));
                self.without(removed, decided)
            }
            Change::CreateNode(new) => self.grown(new.group.as_deref(), 1),
            Change::CreateCluster
            | Change::DeleteCluster(_)
            | Change::ReplaceNodes(_)
            | Change::CheckCluster(_)
            | Change::RecoverCluster(_)
            | Change::OperateCluster(_)
            | Change::AttachPolicy(_)
            | Change::DetachPolicy(_)
            | Change::UpdatePolicy(_)
            | Change::DeleteNode(_)
            | Change::UpdateNode(_)
            | Change::JoinNode
            | Change::LeaveNode
            | Change::CheckNode(_)
            | Change::RecoverNode(_)
            | Change::OperateNode(_) => Ok(self.cluster.clone()),
        }
    }

    /// Returns the cluster without some of its members; fails if a bound does not allow that. If a policy keeps the
    /// size, the removed members are replaced by others.
    pub fn without<'n>(
        &self,
        removed: impl Iterator<Item = &'n Node>,
        decided: &ActionData,
    ) -> Result<Cluster, IntentError> {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for group in removed.filter_map(|node| node.group.as_deref()) {
            *counts.entry(group).or_default() += 1;
        }
        let mut smaller = self.cluster.clone();
        for (group, count) in counts {
            smaller = Intent { cluster: &smaller, ..*self }.grown(Some(group), -count)?;
        }
        Ok(if reduces(decided) { smaller } else { self.cluster.clone() })
    }

    /// Grows or shrinks a group by a count, to no less than zero.
    fn grown(&self, group: Option<&str>, by: i64) -> Result<Cluster, IntentError> {
        if by == 0 {
            // A best-effort change may result in none: then no bound is checked.
            return find_group(self.cluster, group).map(|_| self.cluster.clone());
        }
        self.resized(group, |members| Resize::by(by.max(-i64::from(members))))
    }

    /// Applies the sizes and bounds of groups that an update names. The limit applies to their sum, because some groups
    /// may shrink while others grow.
    fn with_groups(&self, mut cluster: Cluster, update: &ClusterUpdate) -> Result<Cluster, IntentError> {
        for change in update.groups.iter().flatten() {
            let Some(resize) = change.resize() else { continue };
            let intent = Intent { cluster: &cluster, baseline: Baseline::Desired, limit: u32::MAX };
            cluster = intent.resized(Some(&change.name), |_| resize)?;
        }
        let (total, limit) = (cluster.desired(), self.limit);
        if total > limit && total > self.cluster.desired() {
            return Err(IntentError::TooManyWorkers { total, limit });
        }
        Ok(cluster)
    }

    fn resized(&self, group: Option<&str>, resize: impl Fn(u32) -> Resize) -> Result<Cluster, IntentError> {
        let group = find_group(self.cluster, group)?;
        let others = self.cluster.desired().saturating_sub(group.desired);
        let present = self.present(group);
        let limit = self.limit.saturating_sub(others);
        let refused = |error| IntentError::Size { group: group.name.clone(), error };
        let sizes = resize(present.size).apply(present, limit).map_err(refused)?;
        let mut after = self.cluster.clone();
        for changed in after.groups.iter_mut().filter(|changed| changed.name == group.name) {
            (changed.desired, changed.min, changed.max) = (sizes.size, sizes.min, sizes.max);
        }
        Ok(after)
    }

    /// Returns the size of a group, by the baseline, and its bounds.
    pub fn present(&self, group: &WorkerGroup) -> Sizes {
        let size = match self.baseline {
            Baseline::Members(nodes) => {
                u32::try_from(candidates::workers(nodes, Some(&group.name)).count()).unwrap_or(u32::MAX)
            }
            Baseline::Count(members) => members,
            Baseline::Desired => group.desired,
        };
        Sizes { size, min: group.min, max: group.max }
    }

    fn members(&self) -> &[Node] {
        match self.baseline {
            Baseline::Members(nodes) => nodes,
            Baseline::Count(_) | Baseline::Desired => &[],
        }
    }
}

/// Lowers the size of a group by members that are gone, or that did not join. No bound refuses this, since it records
/// what has happened.
pub(crate) fn subtract(cluster: &mut Cluster, group: &str, count: usize) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    for group in cluster.groups.iter_mut().filter(|other| other.name == group) {
        group.desired = group.desired.saturating_sub(count);
    }
}

/// Returns true if a cluster's size shrinks with removed members; a deletion policy may keep the size.
pub(crate) fn reduces(decided: &ActionData) -> bool {
    let decided = decided.deletion.as_ref().and_then(|deletion| deletion.reduce_desired_capacity);
    decided.unwrap_or(true)
}

/// Returns the group that a change names, else the first group.
pub(crate) fn find_group<'c>(
    cluster: &'c Cluster,
    name: Option<&str>,
) -> Result<&'c WorkerGroup, IntentError> {
    let group = name.map_or_else(|| cluster.groups.first(), |name| cluster.group(name));
    group.ok_or_else(|| {
        let names: Vec<&str> = cluster.groups.iter().map(|group| group.name.as_str()).collect();
        IntentError::UnknownGroup(names.join(", "))
    })
}

#[cfg(test)]
mod tests;
