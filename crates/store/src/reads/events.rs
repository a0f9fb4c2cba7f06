//! Events.

use muster_core::event::{Event, Level};
use muster_core::ids::{ActionId, ClusterId, EventId};

use crate::error::StoreError;
use crate::keyset::{Cursor, Direction, Filter, Page, SortColumn};
use crate::paging::Listing;
use crate::rows::events;
use crate::store::Store;
use crate::value::args;

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
    /// By the kind of object.
    ObjectKind,
    /// By the object's name.
    ObjectName,
    /// By how far it was.
    Phase,
    /// By cluster.
    Cluster,
}

impl EventSort {
    const fn column(self) -> SortColumn {
        match self {
            Self::At => SortColumn { expression: "at", is_text: false },
            Self::Level => SortColumn { expression: "level", is_text: true },
            Self::Reason => SortColumn { expression: "reason", is_text: true },
            Self::Object => SortColumn { expression: "object_id", is_text: true },
            Self::ObjectKind => SortColumn { expression: "object_kind", is_text: true },
            Self::ObjectName => SortColumn { expression: "object_name", is_text: true },
            Self::Phase => SortColumn { expression: "phase", is_text: true },
            Self::Cluster => SortColumn { expression: "coalesce(cluster_id, '')", is_text: true },
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
    /// Of one of these clusters, whether or not they are there.
    pub clusters: Vec<String>,
    /// About one of these objects.
    pub objects: Vec<String>,
    /// About objects of one of these kinds.
    pub object_kinds: Vec<String>,
    /// About objects of one of these names.
    pub object_names: Vec<String>,
    /// Of one of these levels.
    pub levels: Vec<Level>,
    /// With one of these reasons.
    pub reasons: Vec<String>,
    /// The order; ids break ties.
    pub sort: Vec<(EventSort, Direction)>,
    /// Behind this.
    pub after: Option<Cursor>,
    /// Behind the one of this id, if there is such a one.
    pub marker: Option<String>,
    /// At most so many; none is all.
    pub limit: Option<u32>,
    /// Count all pages.
    pub with_total: bool,
}

impl Store {
    /// The event of this id.
    pub async fn event(&self, id: EventId) -> Result<Option<Event>, StoreError> {
        let sql = format!("SELECT {} FROM events WHERE id = $1", events::COLUMNS.join(", "));
        let row = self.read(async |tx| tx.row(sql, args![id.to_string()]).await).await?;
        row.as_ref().map(events::read).transpose()
    }

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
        filter.any_of("cluster_id", query.clusters.iter());
        filter.any_of("object_id", query.objects.iter());
        filter.any_of("object_kind", query.object_kinds.iter());
        filter.any_of("object_name", query.object_names.iter());
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
            marker: query.marker.as_deref(),
            limit: query.limit,
            with_total: query.with_total,
        };
        self.read_many(async |tx| listing.read(tx, events::read, |event| event.id.to_string()).await).await
    }
}
