//! Profiles.

use muster_core::ids::ProfileId;
use muster_core::profile::Profile;

use crate::error::StoreError;
use crate::keyset::{Direction, Filter, Page, SortColumn};
use crate::paging::Listing;
use crate::rows::profiles;
use crate::store::Store;

/// What profiles can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileSort {
    /// By type.
    Kind,
    /// By name.
    Name,
    /// By when they were made.
    CreatedAt,
    /// By when they last changed.
    UpdatedAt,
}

impl ProfileSort {
    const fn column(self) -> SortColumn {
        match self {
            Self::Kind => SortColumn { expression: "type", is_text: true },
            Self::Name => SortColumn { expression: "name", is_text: true },
            Self::CreatedAt => SortColumn { expression: "created_at", is_text: false },
            Self::UpdatedAt => SortColumn { expression: "coalesce(updated_at, -1)", is_text: false },
        }
    }
}

/// Which profiles, in which order, how many.
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
    /// Behind the one of this id, if there is such a one.
    pub marker: Option<String>,
    /// At most so many; none is all.
    pub limit: Option<u32>,
}

impl Store {
    /// These profiles.
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
        let listing = Listing {
            table: "profiles",
            columns: profiles::COLUMNS.to_owned(),
            width: profiles::WIDTH,
            id: "id",
            filter,
            sort: query.sort.iter().map(|(sort, direction)| (sort.column(), *direction)).collect(),
            after: None,
            marker: query.marker.as_deref(),
            limit: query.limit,
            with_total: false,
        };
        self.read_many(async |tx| listing.read(tx, profiles::read, |profile| profile.id.to_string()).await)
            .await
    }

    /// The profile of this id.
    pub async fn profile(&self, id: ProfileId) -> Result<Option<Profile>, StoreError> {
        Ok(self.read(async |tx| profiles::fetch(tx, &[id]).await).await?.into_iter().next())
    }
}
