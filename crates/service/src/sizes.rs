//! Sizes after a change, as far as requests are refused before they are submitted.
//!
//! The engine checks again when the action runs: members may have come or gone by then.

use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::resize::{Adjustment, AdjustmentType, Refused, Resize, Sizes};

use crate::error::ServiceError;
use crate::service::Service;

/// Why a size is refused before the change is submitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// The cluster has no group of this name.
    #[error("The specified group '{0}' could not be found")]
    UnknownGroup(String),
    /// The size or its bounds are out of range.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The present size could not be read.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// A group cannot have as many workers as were asked for, by its own bounds or by the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfBounds {
    /// The most that the group may have beside the other groups.
    pub limit: u32,
}

/// A cluster would have more workers than a cluster may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyWorkers {
    /// How many it would have.
    pub total: u32,
}

/// A resize of one group to an exact size, checked against its bounds and the limit for the whole cluster.
pub fn exact_resize(
    cluster: &Cluster,
    group: &WorkerGroup,
    wanted: u32,
    limit: u32,
) -> Result<Resize, OutOfBounds> {
    let adjustment =
        Adjustment { kind: AdjustmentType::ExactCapacity, number: f64::from(wanted), min_step: None };
    let resize = Resize { adjustment: Some(adjustment), min_size: None, max_size: None, strict: true };
    let present = Sizes { size: group.desired, min: group.min, max: group.max };
    let others = cluster.desired().saturating_sub(group.desired);
    let limit = limit.saturating_sub(others);
    resize.apply(present, limit).map_err(|_| OutOfBounds { limit })?;
    Ok(resize)
}

/// Refuses changed groups by which the cluster would have more workers than the limit.
pub fn check_total(cluster: &Cluster, changed: &[WorkerGroup], limit: u32) -> Result<(), TooManyWorkers> {
    let others =
        cluster.groups.iter().filter(|group| changed.iter().all(|changed| changed.name != group.name));
    let total = others.chain(changed).fold(0_u32, |sum, group| sum.saturating_add(group.desired));
    if total > limit { Err(TooManyWorkers { total }) } else { Ok(()) }
}

impl Service {
    /// The members of a group now, and its bounds; of the first group if none is named.
    async fn present_sizes(&self, cluster: &Cluster, group: Option<&str>) -> Result<Sizes, SizeError> {
        let found = group.map_or_else(|| cluster.groups.first(), |name| cluster.group(name));
        let found = found.ok_or_else(|| SizeError::UnknownGroup(group.unwrap_or_default().to_owned()))?;
        let members = self.engine.store().count_workers(cluster.id, &found.name).await;
        let size = members.map_err(ServiceError::from)?;
        Ok(Sizes { size, min: found.min, max: found.max })
    }

    /// Refuses a resize that does not fit the present members and bounds.
    pub async fn check_resize(
        &self,
        cluster: &Cluster,
        group: Option<&str>,
        resize: &Resize,
    ) -> Result<(), SizeError> {
        let present = self.present_sizes(cluster, group).await?;
        resize.apply(present, self.max_nodes())?;
        Ok(())
    }

    /// Refuses a scale-out beyond the most nodes that a cluster may have; its bounds are the action's to apply.
    pub async fn check_scale_out(&self, cluster: &Cluster, count: u32) -> Result<(), SizeError> {
        let (present, limit) = (self.present_sizes(cluster, None).await?, self.max_nodes());
        let target = i64::from(present.size) + i64::from(count);
        if target > i64::from(limit) {
            return Err(Refused::TargetAboveLimit { target, limit }.into());
        }
        Ok(())
    }

    /// Refuses members that come (or go, if negative) if the size would leave the bounds.
    pub async fn check_membership_change(&self, cluster: &Cluster, change: i64) -> Result<(), SizeError> {
        let by = Adjustment {
            kind: AdjustmentType::ChangeInCapacity,
            #[expect(clippy::cast_precision_loss, reason = "clusters are far smaller than 2^52")]
            number: change as f64,
            min_step: None,
        };
        let resize = Resize { adjustment: Some(by), min_size: None, max_size: None, strict: true };
        self.check_resize(cluster, None, &resize).await
    }

    /// The size and bounds of a new cluster.
    pub fn new_sizes(&self, resize: &Resize) -> Result<Sizes, Refused> {
        resize.apply(Sizes { size: 0, min: 0, max: None }, self.max_nodes())
    }
}
