//! The reading of pages, the same for every table.

use crate::connection::Dialect;
use crate::error::StoreError;
use crate::keyset::{self, Cursor, Direction, Filter, Page, SortColumn, SortKey};
use crate::store::Store;
use crate::transaction::Transaction;
use crate::value::{Row, args};

/// Rows of one table that are listed in pages.
pub(crate) trait PagedRow: Sized {
    /// `actions a`.
    const TABLE: &'static str;
    /// `a.id`.
    const ID: &'static str;
    /// The columns in the order of [`Self::read`]; the first one is the id.
    const COLUMNS: &'static [&'static str];
    /// The keys by which the rows can be sorted.
    type Sort: SortKey;

    fn read(row: &Row) -> Result<Self, StoreError>;
}

/// Implements [`PagedRow`]: the type of the rows, their sort keys, table, id, and the module that reads them.
macro_rules! listed {
    ($row:ty, $sort:ty, $table:expr, $id:literal, $rows:ident) => {
        impl $crate::paging::PagedRow for $row {
            const TABLE: &'static str = $table;
            const ID: &'static str = $id;
            const COLUMNS: &'static [&'static str] = $rows::COLUMNS;
            type Sort = $sort;

            fn read(row: &$crate::value::Row) -> Result<Self, $crate::error::StoreError> {
                $rows::read(row)
            }
        }
    };
}

pub(crate) use listed;

/// The requested page and order of a list.
pub(crate) struct Selection<'q, S> {
    pub(crate) sort: &'q [(S, Direction)],
    pub(crate) after: Option<&'q Cursor>,
    /// Only rows after the row of this id; ignored if no such row exists.
    pub(crate) marker: Option<String>,
    pub(crate) limit: Option<u32>,
    pub(crate) with_total: bool,
}

impl Store {
    /// A page of the rows that match a filter.
    pub(crate) async fn list<R: PagedRow>(
        &self,
        filter: Filter,
        selection: Selection<'_, R::Sort>,
    ) -> Result<Page<R>, StoreError> {
        self.read_many(async |tx| selection.read(tx, filter).await).await
    }
}

impl<'q, S: SortKey> Selection<'q, S> {
    /// Selects the first rows, or those after the row of an id.
    pub(crate) fn new(sort: &'q [(S, Direction)], marker: Option<impl ToString>, limit: Option<u32>) -> Self {
        let marker = marker.map(|id| id.to_string());
        Self { sort, after: None, marker, limit, with_total: false }
    }

    /// Reads the page.
    pub(crate) async fn read<R: PagedRow<Sort = S>>(
        self,
        tx: &mut Transaction<'_>,
        mut filter: Filter,
    ) -> Result<Page<R>, StoreError> {
        let sort = self.columns(tx.dialect());
        let all = (filter.to_where(), filter.arguments.clone());
        if let Some(cursor) = self.after {
            cursor.check(&sort)?;
            filter.after(&sort, R::ID, cursor);
        }
        if let Some(marker) = &self.marker
            && let Some(cursor) = cursor_at::<R>(tx, &sort, marker).await?
        {
            filter.after(&sort, R::ID, &cursor);
        }
        // One row more than requested shows whether there is another page.
        let limit = self.limit.map(|limit| format!(" LIMIT {}", u64::from(limit) + 1)).unwrap_or_default();
        let sql = format!(
            "SELECT {}{} FROM {} {} {}{limit}",
            R::COLUMNS.join(", "),
            keyset::key_columns(&sort),
            R::TABLE,
            filter.to_where(),
            keyset::order_by(&sort, R::ID),
        );
        let mut rows = tx.rows(sql, filter.arguments).await?;
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = match rows.last().filter(|_| more) {
            Some(row) => Some(keyset::cursor(row, R::COLUMNS.len(), &sort, row.text(0)?)?),
            None => None,
        };
        let items: Vec<R> = rows.iter().filter_map(readable).collect();
        let last = next.is_none() && self.limit != Some(0);
        let total = if last && self.after.is_none() && self.marker.is_none() {
            Some(rows.len() as u64)
        } else if last || self.with_total {
            let row = tx.one(format!("SELECT count(*) FROM {} {}", R::TABLE, all.0), all.1).await?;
            Some(row.number(0)?)
        } else {
            None
        };
        Ok(Page { items, next, total })
    }

    fn columns(&self, dialect: Dialect) -> Vec<(SortColumn, Direction)> {
        self.sort.iter().map(|(key, direction)| (key.column(dialect), *direction)).collect()
    }
}

/// Reads a row of a list; an unreadable one is logged and left out, so that the others are shown.
fn readable<R: PagedRow>(row: &Row) -> Option<R> {
    match R::read(row) {
        Ok(item) => Some(item),
        Err(error) => {
            let id = row.text(0).unwrap_or_default();
            tracing::error!(table = R::TABLE, id, %error, "left a row out of a list: it cannot be read");
            None
        }
    }
}

/// The cursor after the row of this id, if the row exists.
async fn cursor_at<R: PagedRow>(
    tx: &mut Transaction<'_>,
    sort: &[(SortColumn, Direction)],
    id: &str,
) -> Result<Option<Cursor>, StoreError> {
    let sql = format!("SELECT {}{} FROM {} WHERE {} = $1", R::ID, keyset::key_columns(sort), R::TABLE, R::ID);
    let row = tx.row(sql, args![id]).await?;
    row.map(|row| keyset::cursor(&row, 1, sort, id.to_owned())).transpose()
}
