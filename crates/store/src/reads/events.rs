//! Reads of events.

use std::cmp::Reverse;
use std::collections::HashMap;

use muster_core::event::{Event, Level, ObjectKind};
use muster_core::ids::{ActionId, ClusterId, EventId};

use crate::error::StoreError;
use crate::keyset::{Cursor, Direction, Filter, Page, sort_keys};
use crate::paging::{Selection, listed};
use crate::rows::events;
use crate::store::Store;
use crate::value::{IntoValue as _, args};

sort_keys! {
    /// The keys by which events can be sorted.
    EventSort {
        /// By time.
        At = number("at"),
        /// By level.
        Level = text("level"),
        /// By reason.
        Reason = text("reason"),
        /// By the object.
        Object = text("object_id"),
        /// By the kind of object.
        ObjectKind = text("object_kind"),
        /// By the object's name.
        ObjectName = text("object_name"),
        /// By phase.
        Phase = text("phase"),
        /// By cluster.
        Cluster = text("coalesce(cluster_id, '')"),
    }
}

/// The query for a list of events.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// Of this cluster and its nodes only.
    pub cluster: Option<ClusterId>,
    /// Caused by this action only.
    pub action: Option<ActionId>,
    /// Of one of these clusters, even if they do not exist any more.
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
    /// Only rows after this cursor.
    pub after: Option<Cursor>,
    /// Only rows after the row of this id; ignored if no such row exists.
    pub marker: Option<String>,
    /// The largest number of rows; `None` means all.
    pub limit: Option<u32>,
    /// True to count the rows of all pages.
    pub with_total: bool,
}

listed!(Event, EventSort, "events", "id", events);

impl Store {
    /// The event of this id.
    pub async fn event(&self, id: EventId) -> Result<Option<Event>, StoreError> {
        let sql = format!("SELECT {} FROM events WHERE id = $1", events::COLUMNS.join(", "));
        let row = self.read(async |tx| tx.row(sql, args![id.to_string()]).await).await?;
        row.as_ref().map(events::read).transpose()
    }

    /// The latest events of each of these clusters, without those of their nodes, the newest first. One query reads
    /// those of many clusters, each by its own range of the index, without reading older events.
    pub async fn latest_events(
        &self,
        clusters: &[ClusterId],
        limit: u32,
    ) -> Result<HashMap<ClusterId, Vec<Event>>, StoreError> {
        const CLUSTERS_PER_QUERY: usize = 100;
        let (columns, kind) = (events::COLUMNS.join(", "), ObjectKind::Cluster);
        let mut latest: HashMap<ClusterId, Vec<Event>> = HashMap::new();
        for some in clusters.chunks(CLUSTERS_PER_QUERY) {
            let one = |place: usize| {
                format!(
                    "SELECT * FROM (SELECT {columns} FROM events WHERE cluster_id = ${place} AND object_kind = '{kind}' \
                     ORDER BY at DESC, id DESC LIMIT {limit}) AS e{place}"
                )
            };
            let all: Vec<String> = (1..=some.len()).map(one).collect();
            let ids = some.iter().map(|id| id.to_string().into_value()).collect();
            let rows = self.read_many(async |tx| tx.rows(all.join(" UNION ALL "), ids).await).await?;
            for row in &rows {
                let event = events::read(row)?;
                if let Some(cluster) = event.cluster_id {
                    latest.entry(cluster).or_default().push(event);
                }
            }
        }
        for events in latest.values_mut() {
            events.sort_by_key(|event| Reverse((event.at, event.id)));
        }
        Ok(latest)
    }

    /// A page of events.
    pub async fn events(&self, query: &EventQuery) -> Result<Page<Event>, StoreError> {
        let mut filter = Filter::default();
        filter.equal("project", query.project.as_ref());
        filter.equal("cluster_id", query.cluster.map(|id| id.to_string()));
        filter.equal("action_id", query.action.map(|id| id.to_string()));
        filter.any_of("cluster_id", query.clusters.iter());
        filter.any_of("object_id", query.objects.iter());
        filter.any_of("object_kind", query.object_kinds.iter());
        filter.any_of("object_name", query.object_names.iter());
        filter.any_of("level", query.levels.iter().map(|level| level.as_str()));
        filter.any_of("reason", query.reasons.iter());
        let is_few = is_few(query);
        let selection = Selection {
            after: query.after.as_ref(),
            with_total: query.with_total,
            ..Selection::new(&query.sort, query.marker.as_ref(), query.limit)
        };
        if is_few {
            return self.read(async |tx| selection.read(tx, filter).await).await;
        }
        self.list(filter, selection).await
    }
}

/// Returns true if the query is for a few latest events of one cluster, which an index finds quickly.
fn is_few(query: &EventQuery) -> bool {
    const FEW: u32 = 20;
    let EventQuery {
        project: _,
        cluster,
        action,
        clusters,
        objects,
        object_kinds,
        object_names,
        levels,
        reasons,
        sort,
        after: _,
        marker,
        limit,
        with_total,
    } = query;
    let is_filtered = action.is_some()
        || [clusters, objects, object_kinds, object_names, reasons].iter().any(|filter| !filter.is_empty())
        || !levels.is_empty();
    cluster.is_some()
        && !is_filtered
        && matches!(sort.as_slice(), [(EventSort::At, _)])
        && marker.is_none()
        && limit.is_some_and(|limit| limit <= FEW)
        && !with_total
}
