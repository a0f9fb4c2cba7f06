//! Computes the sizes after a change, so that requests are refused before they are submitted.
//!
//! The engine repeats the check when the action runs, because members may have joined or left by then.

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::resize::{Resize, ResizeError, Sizes};
use muster_engine::action_data::ActionData;
use muster_engine::intent::{Baseline, Intent};
use muster_store::Direction;
use muster_store::reads::{ActionQuery, ActionSort};

pub use muster_engine::intent::IntentError;

use crate::error::ServiceError;
use crate::service::Service;

/// The reason why a size is refused before the change is submitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// The cluster has no group of this name.
    #[error("The specified group '{0}' could not be found")]
    UnknownGroup(String),
    /// The size or its bounds are out of range.
    #[error(transparent)]
    Refused(#[from] IntentError),
    /// The present size could not be read.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// The cluster after a change that is counted from the desired size, or the reason why the change is refused.
pub fn after(cluster: &Cluster, change: &Change, limit: u32) -> Result<Cluster, IntentError> {
    Intent { cluster, baseline: Baseline::Desired, limit }.after(change, &ActionData::default())
}

impl Service {
    /// The cluster after all changes that wait now, except those that would be refused.
    pub async fn after_waiting(&self, cluster: &Cluster) -> Result<Cluster, ServiceError> {
        let query = ActionQuery {
            cluster: Some(cluster.id),
            top_level: true,
            kinds: vec![ActionKind::ClusterUpdate, ActionKind::ClusterResize],
            statuses: vec![ActionStatus::Ready, ActionStatus::Running],
            sort: vec![(ActionSort::CreatedAt, Direction::Ascending)],
            ..ActionQuery::default()
        };
        let waiting = self.engine.store().actions(&query).await?.items;
        let waiting = waiting.iter().filter(|action| action.applied_at.is_none());
        let changes = waiting.filter_map(|action| Change::read(action.kind, &action.inputs).ok());
        Ok(changes.fold(cluster.clone(), |cluster, change| {
            after(&cluster, &change, self.max_nodes()).unwrap_or(cluster)
        }))
    }

    /// Refuses a change whose sizes do not fit the present members and bounds.
    pub async fn check_sizes(&self, cluster: &Cluster, change: &Change) -> Result<(), SizeError> {
        let group = change.group();
        let found = group.map_or_else(|| cluster.groups.first(), |name| cluster.group(name));
        let found = found.ok_or_else(|| SizeError::UnknownGroup(group.unwrap_or_default().to_owned()))?;
        let store = self.engine.store();
        let members = match change {
            // The groups of the removed members are the groups that shrink.
            Change::RemoveNodes(_) => store.members(cluster.id).await.map_err(ServiceError::from)?,
            _ => Vec::new(),
        };
        let baseline = match change {
            // An operator may still be creating members, so the desired size of its object counts.
            _ if self.is_delegated(cluster) => Baseline::Desired,
            Change::RemoveNodes(_) => Baseline::Members(&members),
            _ => Baseline::Count(
                store.count_workers(cluster.id, &found.name).await.map_err(ServiceError::from)?,
            ),
        };
        let mut bounds = cluster.clone();
        if matches!(change, Change::ScaleOut(_)) {
            // A policy may lower the count, so only the limit of the server can be checked now.
            bounds.groups.iter_mut().for_each(|group| group.max = None);
        }
        let intent = Intent { cluster: &bounds, baseline, limit: self.max_nodes() };
        intent.after(change, &ActionData::default())?;
        Ok(())
    }

    /// The size and bounds of a new cluster.
    pub fn new_sizes(&self, resize: &Resize) -> Result<Sizes, ResizeError> {
        resize.apply(Sizes { size: 0, min: 0, max: None }, self.max_nodes())
    }
}
