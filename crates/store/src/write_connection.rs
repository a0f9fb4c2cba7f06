//! The only connection that writes to an SQLite file, and its lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection as Sqlite, ErrorCode};

use crate::error::StoreError;
use crate::shared::Shared;
use crate::transaction::CommitEffects;

/// The longest transaction that may run on a thread of the runtime: a slower one costs more than a switch to another
/// thread.
pub(crate) const QUICK: Duration = Duration::from_millis(10);

/// The connection for writes, with its lock.
pub(crate) struct WriteConnection {
    connection: Mutex<Sqlite>,
    /// True if the last transaction took longer than [`QUICK`].
    slow: AtomicBool,
    shared: Shared,
}

impl WriteConnection {
    pub(crate) const fn new(connection: Sqlite, shared: Shared) -> Self {
        Self { connection: Mutex::new(connection), slow: AtomicBool::new(false), shared }
    }

    /// Locks the connection, and waits for the present command if necessary.
    pub(crate) fn lock(&self) -> WriteGuard<'_> {
        // A panic leaves no transaction open: dropping `OpenTransaction` rolls it back before the lock is released.
        self.guard(self.connection.lock())
    }

    /// Locks the connection, unless it is in use or the disk is slow.
    pub(crate) fn try_lock_quick(&self) -> Option<WriteGuard<'_>> {
        if self.slow.load(Ordering::Relaxed) {
            return None;
        }
        self.connection.try_lock().map(|connection| self.guard(connection))
    }

    fn guard<'p>(&'p self, connection: MutexGuard<'p, Sqlite>) -> WriteGuard<'p> {
        WriteGuard { owner: self, connection, begun: Instant::now() }
    }
}

/// The locked connection, which is unlocked when this value is dropped.
pub(crate) struct WriteGuard<'p> {
    owner: &'p WriteConnection,
    connection: MutexGuard<'p, Sqlite>,
    begun: Instant,
}

impl WriteGuard<'_> {
    /// Begins a transaction; waits at most `patience` for another process that has locked the file.
    pub(crate) fn begin(&mut self, patience: Duration) -> Result<OpenTransaction<'_>, rusqlite::Error> {
        self.connection.busy_timeout(patience)?;
        execute(&self.connection, "BEGIN IMMEDIATE")?;
        Ok(OpenTransaction { connection: &mut self.connection, owner: self.owner })
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.owner.slow.store(self.begun.elapsed() > QUICK, Ordering::Relaxed);
    }
}

/// Returns true if another process has locked the file.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// An open transaction, which is rolled back if it is dropped without a commit (after an error, a full disk, a panic).
pub(crate) struct OpenTransaction<'t> {
    pub(crate) connection: &'t mut Sqlite,
    owner: &'t WriteConnection,
}

impl OpenTransaction<'_> {
    pub(crate) fn statement(&self, sql: &'static str) -> Result<(), StoreError> {
        Ok(execute(self.connection, sql)?)
    }

    /// Commits, and notifies the listeners before the next write, so that they are notified in the order of commits,
    /// and before the caller gets the result.
    pub(crate) fn commit(self, effects: &CommitEffects) -> Result<(), StoreError> {
        self.statement("COMMIT")?;
        self.owner.shared.committed(effects);
        Ok(())
    }
}

impl Drop for OpenTransaction<'_> {
    fn drop(&mut self) {
        // After some errors SQLite has already rolled back; after others every later BEGIN would fail without this.
        if !self.connection.is_autocommit() {
            drop(execute(self.connection, "ROLLBACK"));
        }
    }
}

fn execute(connection: &Sqlite, sql: &'static str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}
