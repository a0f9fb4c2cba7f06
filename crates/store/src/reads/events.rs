//! Events.

use muster_core::event::{Event, Level};
use muster_core::ids::{ActionId, ClusterId};

use crate::error::StoreError;
use crate::keyset::{Cursor, Direction, Filter, Page, SortColumn};
use crate::paging::Listing;
use crate::rows::events;
use crate::store::Store;

/// What events can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSort {
    /// By when they happened.
    At,
    /// By how much they matter.
    Level,
    /// By what was done.
    Reason,
    /// By the object.
    Object,
}

impl EventSort {
    const fn column(self) -> SortColumn {
        match self {
            Self::At => SortColumn { expression: "at", is_text: false },
            Self::Level => SortColumn { expression: "level", is_text: true },
            Self::Reason => SortColumn { expression: "reason", is_text: true },
            Self::Object => SortColumn { expression: "object_id", is_text: true },
        }
    }
}

/// Which events, in which order, how many.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// Of this cluster and its nodes only.
    pub cluster: Option<ClusterId>,
    /// Behind which this action stands.
    pub action: Option<ActionId>,
    /// About one of these objects.
    pub objects: Vec<String>,
    /// Of one of these levels.
    pub levels: Vec<Level>,
    /// With one of these reasons.
    pub reasons: Vec<String>,
    /// The order; ids break ties.
    pub sort: Vec<(EventSort, Direction)>,
    /// Behind this.
    pub after: Option<Cursor>,
    /// At most so many; none is all.
    pub limit: Option<u32>,
    /// Count all pages.
    pub with_total: bool,
}

impl Store {
    /// A page of events.
    pub async fn events(&self, query: &EventQuery) -> Result<Page<Event>, StoreError> {
        let mut filter = Filter::default();
        let equal = [
            ("project", query.project.clone()),
            ("cluster_id", query.cluster.map(|id| id.to_string())),
            ("action_id", query.action.map(|id| id.to_string())),
        ];
        for (column, value) in equal {
            if let Some(value) = value {
                let place = filter.place(value);
                filter.add(format!("{column} = {place}"));
            }
        }
        filter.any_of("object_id", query.objects.iter());
        filter.any_of("level", query.levels.iter().map(|level| level.as_str()));
        filter.any_of("reason", query.reasons.iter());
        let listing = Listing {
            table: "events",
            columns: events::COLUMNS.join(", "),
            width: events::COLUMNS.len(),
            id: "id",
            filter,
            sort: query.sort.iter().map(|(sort, direction)| (sort.column(), *direction)).collect(),
            after: query.after.as_ref(),
            limit: query.limit,
            with_total: query.with_total,
        };
        self.read_many(async |tx| listing.read(tx, events::read, |event| event.id.to_string()).await).await
    }
}
