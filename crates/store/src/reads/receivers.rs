//! Reads of receivers.

use muster_core::action::ActionKind;
use muster_core::ids::ReceiverId;
use muster_core::receiver::{Receiver, ReceiverKind};

use crate::error::StoreError;
use crate::keyset::{Direction, Filter, Page, sort_keys};
use crate::paging::{Selection, listed};
use crate::rows::receivers;
use crate::store::Store;
use crate::value::args;

sort_keys! {
    /// The keys by which receivers can be sorted.
    ReceiverSort {
        /// By name.
        Name = text("name"),
        /// By type.
        Kind = text("type"),
        /// By kind.
        Action = text("action"),
        /// By cluster.
        Cluster = text("cluster_id"),
        /// By the time of creation.
        CreatedAt = number("created_at"),
        /// By the user who created them.
        User = text("user_id"),
    }
}

/// The query for a list of receivers.
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
    /// With one of these kinds of actions.
    pub actions: Vec<ActionKind>,
    /// Created by one of these users.
    pub users: Vec<String>,
    /// The order; ids break ties.
    pub sort: Vec<(ReceiverSort, Direction)>,
    /// Only rows after the row of this id; ignored if no such row exists.
    pub marker: Option<String>,
    /// The largest number of rows; `None` means all.
    pub limit: Option<u32>,
}

listed!(Receiver, ReceiverSort, "receivers", "id", receivers);

impl Store {
    /// The receiver of this id.
    pub async fn receiver(&self, id: ReceiverId) -> Result<Option<Receiver>, StoreError> {
        let sql = format!("SELECT {} FROM receivers WHERE id = $1", receivers::COLUMNS.join(", "));
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
        let selection = Selection::new(&query.sort, query.marker.as_ref(), query.limit);
        self.list(filter, selection).await
    }
}
