//! The one connection that writes to a file, and whose turn it is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection as Sqlite, ErrorCode};

use crate::error::StoreError;
use crate::shared::Shared;
use crate::transaction::Effects;

/// A transaction that takes longer is no longer cheaper than a hand-over to another thread: the disk is slow, or busy.
pub(crate) const QUICK: Duration = Duration::from_millis(10);

/// The writing connection. One at a time has it.
pub(crate) struct Pen {
    connection: Mutex<Sqlite>,
    /// Whether the last transaction took longer than whoever else is on its thread should have to wait.
    slow: AtomicBool,
    shared: Shared,
}

impl Pen {
    pub(crate) const fn new(connection: Sqlite, shared: Shared) -> Self {
        Self { connection: Mutex::new(connection), slow: AtomicBool::new(false), shared }
    }

    /// The connection, once nobody else has it.
    pub(crate) fn wait(&self) -> Turn<'_> {
        // A panic leaves no transaction open: dropping `Open` rolls it back before the lock is released.
        self.turn(self.connection.lock())
    }

    /// The connection, if it is free and the disk is quick.
    pub(crate) fn at_once(&self) -> Option<Turn<'_>> {
        if self.slow.load(Ordering::Relaxed) {
            return None;
        }
        self.connection.try_lock().map(|connection| self.turn(connection))
    }

    fn turn<'p>(&'p self, connection: MutexGuard<'p, Sqlite>) -> Turn<'p> {
        Turn { pen: self, connection, begun: Instant::now() }
    }
}

/// The right to write, until it is dropped.
pub(crate) struct Turn<'p> {
    pen: &'p Pen,
    connection: MutexGuard<'p, Sqlite>,
    begun: Instant,
}

impl Turn<'_> {
    /// Begins a transaction; waits no longer than this for another process that has the file.
    pub(crate) fn begin(&mut self, patience: Duration) -> Result<Open<'_>, rusqlite::Error> {
        self.connection.busy_timeout(patience)?;
        execute(&self.connection, "BEGIN IMMEDIATE")?;
        Ok(Open { connection: &mut self.connection, pen: self.pen })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pen.slow.store(self.begun.elapsed() > QUICK, Ordering::Relaxed);
    }
}

/// Whether another process has the file.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// A transaction. Left in whatever way without a commit (an error, a full disk, a panic) it is undone.
pub(crate) struct Open<'t> {
    pub(crate) connection: &'t mut Sqlite,
    pen: &'t Pen,
}

impl Open<'_> {
    pub(crate) fn statement(&self, sql: &'static str) -> Result<(), StoreError> {
        Ok(execute(self.connection, sql)?)
    }

    /// Makes it durable, and tells whoever listens: before anybody else writes, so that they hear of commits in their
    /// order, and before whoever asked is answered.
    pub(crate) fn commit(self, effects: &Effects) -> Result<(), StoreError> {
        self.statement("COMMIT")?;
        self.pen.shared.committed(effects);
        Ok(())
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // After some errors SQLite has rolled back itself, after others every later BEGIN would fail without this.
        if !self.connection.is_autocommit() {
            drop(execute(self.connection, "ROLLBACK"));
        }
    }
}

fn execute(connection: &Sqlite, sql: &'static str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}
