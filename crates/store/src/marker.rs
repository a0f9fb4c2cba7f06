//! Where a list goes on behind a row that is known by its id.

use crate::error::StoreError;
use crate::keyset::{self, Cursor};
use crate::paging::Listing;
use crate::transaction::Transaction;
use crate::value::args;

/// The cursor behind a row of a list; none if there is no such row, and the list then begins at its first one.
pub(crate) async fn behind(
    tx: &mut Transaction<'_>,
    listing: &Listing<'_>,
    id: &str,
) -> Result<Option<Cursor>, StoreError> {
    let keys = keyset::key_columns(&listing.sort);
    let sql = format!("SELECT {}{keys} FROM {} WHERE {} = $1", listing.id, listing.table, listing.id);
    match tx.row(sql, args![id]).await? {
        Some(row) => keyset::cursor(&row, 1, &listing.sort, id.to_owned()).map(Some),
        None => Ok(None),
    }
}
