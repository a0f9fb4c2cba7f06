//! Reads of profiles.

use muster_core::ids::ProfileId;
use muster_core::profile::Profile;

use crate::error::StoreError;
use crate::keyset::{Direction, Filter, Page, sort_keys};
use crate::paging::{Selection, listed};
use crate::rows::profiles;
use crate::store::Store;

sort_keys! {
    /// The keys by which profiles can be sorted.
    ProfileSort {
        /// By type.
        Kind = text("type"),
        /// By name.
        Name = text("name"),
        /// By the time of creation.
        CreatedAt = number("created_at"),
        /// By the time of the last change.
        UpdatedAt = number("coalesce(updated_at, -1)"),
    }
}

/// The query for a list of profiles.
#[derive(Debug, Clone, Default)]
pub struct ProfileQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// With one of these names.
    pub names: Vec<String>,
    /// Of one of these types.
    pub kinds: Vec<String>,
    /// The order; ids break ties.
    pub sort: Vec<(ProfileSort, Direction)>,
    /// Only rows after the row of this id; ignored if no such row exists.
    pub marker: Option<String>,
    /// The largest number of rows; `None` means all.
    pub limit: Option<u32>,
}

listed!(Profile, ProfileSort, "profiles", "id", profiles);

impl Store {
    /// The profiles of these ids.
    pub async fn profiles_of(&self, ids: &[ProfileId]) -> Result<Vec<Profile>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.read(async |tx| profiles::fetch(tx, ids).await).await
    }

    /// A page of profiles.
    pub async fn profiles(&self, query: &ProfileQuery) -> Result<Page<Profile>, StoreError> {
        let mut filter = Filter::default();
        filter.any_of("project", query.project.iter());
        filter.any_of("name", query.names.iter());
        filter.any_of("type", query.kinds.iter());
        let selection = Selection::new(&query.sort, query.marker.as_ref(), query.limit);
        self.list(filter, selection).await
    }

    /// The profile of this id.
    pub async fn profile(&self, id: ProfileId) -> Result<Option<Profile>, StoreError> {
        Ok(self.read(async |tx| profiles::fetch(tx, &[id]).await).await?.into_iter().next())
    }
}
