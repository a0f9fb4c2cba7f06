//! The read connections of SQLite, beside the one writer.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection as Sqlite;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

use crate::connection::Connection;
use crate::error::StoreError;
use crate::sqlite::{at_once, open_reader};
use crate::transaction::Transaction;

/// The number of concurrent reads: more would only queue inside SQLite.
const AT_A_TIME: usize = 4;

/// The read connections, opened when they are first needed.
#[derive(Clone)]
pub(crate) struct Readers {
    inner: Arc<ReadConnections>,
}

struct ReadConnections {
    file: PathBuf,
    turns: Semaphore,
    idle: Mutex<Vec<Sqlite>>,
}

impl Readers {
    pub(crate) fn new(file: PathBuf) -> Self {
        let (turns, idle) = (Semaphore::new(AT_A_TIME), Mutex::default());
        Self { inner: Arc::new(ReadConnections { file, turns, idle }) }
    }

    /// Runs queries in one snapshot of the database.
    pub(crate) async fn read<T>(
        &self,
        size: ResultSize,
        query: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let closed = |_| StoreError::Unavailable("the store is closed".to_owned());
        let turn = self.inner.turns.acquire().await.map_err(closed)?;
        let read = || {
            let idle = self.inner.idle.lock().pop();
            let mut connection = idle.map_or_else(|| open_reader(&self.inner.file), Ok)?;
            connection.prepare_cached("BEGIN")?.execute([])?;
            let answer = at_once(query(&mut Transaction::new(Connection::Sqlite(&mut connection))));
            // If the transaction cannot be ended, the connection is dropped.
            connection.prepare_cached("COMMIT")?.execute([])?;
            self.inner.idle.lock().push(connection);
            answer
        };
        let answer = match size {
            ResultSize::Few => read(),
            ResultSize::Many => elsewhere(read),
        };
        drop(turn);
        answer
    }

    /// Refuses further reads, and closes the idle connections.
    pub(crate) fn close(&self) {
        self.inner.turns.close();
        self.inner.idle.lock().clear();
    }
}

/// The size of a query's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultSize {
    /// A few rows, found by their keys: read faster than other tasks could be moved to another thread.
    Few,
    /// All rows or a page of them: other tasks of the thread should not wait for them.
    Many,
}

/// Moves the other tasks of this thread to another thread during the read, if the runtime has several.
fn elsewhere<T>(read: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(read),
        _ => read(),
    }
}
