//! What a cluster will look like after a change. Pure: the same inputs give the same answer; only `naming` draws ids
//! and random letters.
//!
//! [`Intent::after`] is the only place that answers that question: for the service layer, which refuses early, for
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

/// What a change of sizes is counted from.
#[derive(Debug, Clone, Copy)]
pub enum Baseline<'a> {
    /// The members that exist: Muster starts and stops each.
    Members(&'a [Node]),
    /// So many members of the group that the change is about, counted in the database.
    Count(u32),
    /// The size that the spec of record says: members may be on their way, or were not read.
    Desired,
}

/// A cluster as it is, and what a change is counted from and bounded by.
#[derive(Debug, Clone, Copy)]
pub struct Intent<'a> {
    /// The cluster before the change.
    pub cluster: &'a Cluster,
    /// What changes of sizes are counted from.
    pub baseline: Baseline<'a>,
    /// The most nodes that any cluster may have.
    pub limit: u32,
}

impl Intent<'_> {
    /// The cluster after a change, or why that is refused. A count that policies decided goes before the one that was
    /// asked for.
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

    /// The cluster without some of its members; refused if a bound does not allow that. Where a policy says that the
    /// size stays, others come in their place.
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

    /// A group grown or shrunk by a count; it shrinks no further than to zero.
    fn grown(&self, group: Option<&str>, by: i64) -> Result<Cluster, IntentError> {
        if by == 0 {
            // Best effort may result in no change: then no bound is checked.
            return find_group(self.cluster, group).map(|_| self.cluster.clone());
        }
        self.resized(group, |members| Resize::by(by.max(-i64::from(members))))
    }

    /// A cluster whose groups have the sizes and bounds that an update names. Groups may shrink for others that grow: the
    /// limit is for their sum.
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

    /// The size of a group, by the baseline, and its bounds.
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

/// Lowers the size of a group by members that are gone, or that never came. That describes what has happened: no bound
/// refuses it.
pub(crate) fn subtract(cluster: &mut Cluster, group: &str, count: usize) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    for group in cluster.groups.iter_mut().filter(|other| other.name == group) {
        group.desired = group.desired.saturating_sub(count);
    }
}

/// Whether a cluster's size shrinks with members that are removed; a deletion policy may say that it does not.
pub(crate) fn reduces(decided: &ActionData) -> bool {
    let decided = decided.deletion.as_ref().and_then(|deletion| deletion.reduce_desired_capacity);
    decided.unwrap_or(true)
}

/// The group that a change is about: the one that it names, else the first.
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
