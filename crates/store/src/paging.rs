//! One way to read a page, for every table.

use crate::error::StoreError;
use crate::keyset::{self, Cursor, Direction, Filter, Page, SortColumn};
use crate::transaction::Transaction;
use crate::value::{Row, args};

/// A list of one table.
pub(crate) struct Listing<'q> {
    /// `actions a`.
    pub(crate) table: &'static str,
    /// The columns that `read` wants.
    pub(crate) columns: String,
    /// How many those are.
    pub(crate) width: usize,
    /// `a.id`.
    pub(crate) id: &'static str,
    pub(crate) filter: Filter,
    pub(crate) sort: Vec<(SortColumn, Direction)>,
    pub(crate) after: Option<&'q Cursor>,
    /// Behind the row of this id instead; one that is not there says nothing.
    pub(crate) marker: Option<&'q str>,
    pub(crate) limit: Option<u32>,
    pub(crate) with_total: bool,
}

impl Listing<'_> {
    /// The cursor behind a row, wherever that is in the list.
    async fn cursor_at(&self, tx: &mut Transaction<'_>, id: &str) -> Result<Option<Cursor>, StoreError> {
        let sql = format!(
            "SELECT {}{} FROM {} WHERE {} = $1",
            self.id,
            keyset::key_columns(&self.sort),
            self.table,
            self.id
        );
        let row = tx.row(sql, args![id]).await?;
        row.map(|row| keyset::cursor(&row, 1, &self.sort, id.to_owned())).transpose()
    }

    /// Reads the page; `id_of` is the row's id again, for the cursor.
    pub(crate) async fn read<T>(
        mut self,
        tx: &mut Transaction<'_>,
        read: impl Fn(&Row) -> Result<T, StoreError>,
        id_of: impl Fn(&T) -> String,
    ) -> Result<Page<T>, StoreError> {
        let all = (self.filter.to_where(), self.filter.arguments.clone());
        if let Some(cursor) = self.after {
            cursor.check(&self.sort)?;
            self.filter.after(&self.sort, self.id, cursor);
        }
        if let Some(marker) = self.marker
            && let Some(cursor) = self.cursor_at(tx, marker).await?
        {
            self.filter.after(&self.sort, self.id, &cursor);
        }
        // One more than asked tells whether there is another page.
        let limit = self.limit.map(|limit| format!(" LIMIT {}", u64::from(limit) + 1)).unwrap_or_default();
        let sql = format!(
            "SELECT {}{} FROM {} {} {}{limit}",
            self.columns,
            keyset::key_columns(&self.sort),
            self.table,
            self.filter.to_where(),
            keyset::order_by(&self.sort, self.id),
        );
        let rows = tx.rows(sql, self.filter.arguments).await?;
        let mut items = rows.iter().map(read).collect::<Result<Vec<T>, _>>()?;
        let mut next = None;
        if let Some(limit) = self.limit.and_then(|limit| usize::try_from(limit).ok())
            && items.len() > limit
        {
            items.truncate(limit);
            if let (Some(item), Some(row)) =
                (items.last(), limit.checked_sub(1).and_then(|last| rows.get(last)))
            {
                next = Some(keyset::cursor(row, self.width, &self.sort, id_of(item))?);
            }
        }
        let last = next.is_none() && self.limit != Some(0);
        let total = if last && self.after.is_none() && self.marker.is_none() {
            Some(items.len() as u64)
        } else if last || self.with_total {
            let row = tx.one(format!("SELECT count(*) FROM {} {}", self.table, all.0), all.1).await?;
            Some(row.number(0)?)
        } else {
            None
        };
        Ok(Page { items, next, total })
    }
}
