//! The numbers of changes, which order the change feed of clusters.
//!
//! Each commit that writes clusters has a number. A watch reads the rows above its position in the order of their
//! numbers, so no row may appear later below a position that was returned. On SQLite one connection writes, and the
//! numbers are a counter. On PostgreSQL transactions commit in another order than they draw their numbers:
//!
//! * Numbers come from a sequence of the database, `changes`. A dump contains it, so they continue where the database
//!   is restored. (Transaction ids begin low again on another server, and their horizon `pg_snapshot_xmin` stands still
//!   behind every open transaction of the whole server.)
//! * A transaction takes a shared advisory lock on the sequence's present value, its *bound*, before it draws, and so
//!   draws a higher number. The lock ends with the transaction. No transaction waits for it, and commits that are flushed
//!   together stay so; a lock that orders the commits would make them one flush after the other.
//! * A reader reads the sequence, then the bounds that are held, and takes its snapshot after that. What was drawn up to the
//!   lower of the two ([`Drawn::settled`]) is visible in the snapshot, or never will be: the transaction that drew it had its lock
//!   before the sequence was read. Either the bound is still held, and is lower, or the lock has ended, which
//!   PostgreSQL does only after the transaction is visible to new snapshots.
//! * A position is never above the highest change of a row that the snapshot shows. Such a commit is durable, and so is
//!   the sequence up to its number: a server that crashes does not draw that number again.
//!
//! Only transactions of Muster that write clusters of this database hold readers up, for as long as those take.

use crate::connection::Dialect;
use crate::error::StoreError;
use crate::reads::FORGOTTEN;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::value::args;

/// The first key of the advisory locks; the second key is the lowest 32 bits of the bound.
macro_rules! bounds {
    () => {
        "7305415"
    };
}

/// Draws a number. The outer query draws only after the inner one has returned its row, when the lock is held.
const DRAW: &str = concat!(
    "WITH bound AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(",
    bounds!(),
    ", last_value::bit(32)::int4) FROM changes) SELECT nextval('changes') FROM bound"
);

/// Reads [`Drawn`]. The inner query reads the locks after the sequence's value, which they are compared with.
const DRAWN: &str = concat!(
    "WITH drawn AS MATERIALIZED (SELECT last_value FROM changes) \
     SELECT drawn.last_value, drawn.last_value + (\
        SELECT least(min((l.objid::bigint - drawn.last_value)::bit(32)::int4), 0)::bigint FROM pg_locks l \
        WHERE l.locktype = 'advisory' AND l.classid = ",
    bounds!(),
    " AND l.objsubid = 2 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())\
     ) FROM drawn"
);

/// The progress of the numbering before a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drawn {
    /// The highest number that had been drawn.
    pub(crate) last: i64,
    /// Every transaction that drew a number up to this one has ended.
    pub(crate) settled: i64,
}

impl Store {
    /// Returns the progress of the numbering; must be called before the snapshot is taken in which changes are read.
    /// `None` on SQLite, which has one writer, so that every snapshot is complete.
    pub(crate) async fn drawn_changes(&self) -> Result<Option<Drawn>, StoreError> {
        let Some(row) = self.ask_server(DRAWN).await? else { return Ok(None) };
        Ok(Some(Drawn { last: row.int(0)?, settled: row.int(1)? }))
    }
}

/// Draws the number of a transaction that is about to write clusters.
pub(crate) async fn draw(tx: &mut Transaction<'_>) -> Result<i64, StoreError> {
    match tx.dialect() {
        Dialect::Sqlite => tx.next("change").await,
        Dialect::Postgres => tx.one(DRAW, args![]).await?.int(0),
    }
}

/// The number of changes that [`leave_history`] skips: more than a restore ever loses, and few enough for [`DRAWN`].
const LEAP: i64 = 1_000_000_000;

/// Skips numbers after a database was restored from an older copy: numbers that were drawn after the copy must not be
/// drawn again, or a watch at such a position would miss the new changes under those numbers.
pub(crate) async fn leave_history(tx: &mut Transaction<'_>) -> Result<(), StoreError> {
    const SQLITE: &str = "UPDATE counters SET value = value + $1 WHERE name = 'change' RETURNING value";
    const POSTGRES: &str = "SELECT setval('changes', last_value + $1) FROM changes";
    const FORGET: &str = "INSERT INTO counters (name, value) VALUES ($1, $2) \
                          ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    let sql = match tx.dialect() {
        Dialect::Sqlite => SQLITE,
        Dialect::Postgres => POSTGRES,
    };
    let first = tx.one(sql, args![LEAP]).await?.int(0)?;
    tx.execute(FORGET, args![FORGOTTEN, first]).await?;
    Ok(())
}

/// The highest number in a snapshot; `None` if the snapshot has no change.
pub(crate) async fn highest(tx: &mut Transaction<'_>) -> Result<Option<i64>, StoreError> {
    let sql = match tx.dialect() {
        Dialect::Sqlite => "SELECT value FROM counters WHERE name = 'change'",
        Dialect::Postgres => "SELECT max(change) FROM clusters",
    };
    tx.one(sql, args![]).await?.opt_int(0)
}
