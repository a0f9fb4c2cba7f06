//! Receivers, one or many.

use muster_core::action::ActionKind;
use muster_core::ids::ReceiverId;
use muster_core::receiver::{Receiver, ReceiverKind};

use crate::error::StoreError;
use crate::keyset::{Direction, Filter, Page, SortColumn};
use crate::paging::Listing;
use crate::rows::receivers;
use crate::store::Store;
use crate::value::args;

/// What receivers can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverSort {
    /// By name.
    Name,
    /// By type.
    Kind,
    /// By what they do.
    Action,
    /// By cluster.
    Cluster,
    /// By when they were made.
    CreatedAt,
    /// By who made them.
    User,
}

impl ReceiverSort {
    const fn column(self) -> SortColumn {
        match self {
            Self::Name => SortColumn { expression: "name", is_text: true },
            Self::Kind => SortColumn { expression: "type", is_text: true },
            Self::Action => SortColumn { expression: "action", is_text: true },
            Self::Cluster => SortColumn { expression: "cluster_id", is_text: true },
            Self::CreatedAt => SortColumn { expression: "created_at", is_text: false },
            Self::User => SortColumn { expression: "user_id", is_text: true },
        }
    }
}

/// Which receivers, in which order, how many.
#[derive(Debug, Clone, Default)]
pub struct ReceiverQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// With one of these names.
    pub names: Vec<String>,
    /// Of one of these types.
    pub kinds: Vec<ReceiverKind>,
    /// Of one of these clusters.
    pub clusters: Vec<String>,
    /// That do one of these.
    pub actions: Vec<ActionKind>,
    /// Made by one of these users.
    pub users: Vec<String>,
    /// The order; ids break ties.
    pub sort: Vec<(ReceiverSort, Direction)>,
    /// Behind the one of this id, if there is such a one.
    pub marker: Option<String>,
    /// At most so many; none is all.
    pub limit: Option<u32>,
}

impl Store {
    /// The receiver of this id.
    pub async fn receiver(&self, id: ReceiverId) -> Result<Option<Receiver>, StoreError> {
        let sql = format!("SELECT {} FROM receivers WHERE id = $1", receivers::COLUMNS);
        let row = self.read(async |tx| tx.row(sql, args![id.to_string()]).await).await?;
        row.as_ref().map(receivers::read).transpose()
    }

    /// A page of receivers.
    pub async fn receivers(&self, query: &ReceiverQuery) -> Result<Page<Receiver>, StoreError> {
        let mut filter = Filter::default();
        filter.any_of("project", query.project.iter());
        filter.any_of("name", query.names.iter());
        filter.any_of("type", query.kinds.iter().map(|kind| kind.as_str()));
        filter.any_of("cluster_id", query.clusters.iter());
        filter.any_of("action", query.actions.iter().map(|kind| kind.as_str()));
        filter.any_of("user_id", query.users.iter());
        let listing = Listing {
            table: "receivers",
            columns: receivers::COLUMNS.to_owned(),
            width: receivers::WIDTH,
            id: "id",
            filter,
            sort: query.sort.iter().map(|(sort, direction)| (sort.column(), *direction)).collect(),
            after: None,
            marker: query.marker.as_deref(),
            limit: query.limit,
            with_total: false,
        };
        self.read_many(async |tx| listing.read(tx, receivers::read, |receiver| receiver.id.to_string()).await)
            .await
    }
}
