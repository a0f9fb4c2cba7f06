//! SQLite's readers, beside its one writer.

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

/// Reads at a time: more than cores would only queue inside SQLite.
const AT_A_TIME: usize = 4;

/// Connections that read, opened when they are first needed.
#[derive(Clone)]
pub(crate) struct Readers {
    inner: Arc<Inner>,
}

struct Inner {
    file: PathBuf,
    turns: Semaphore,
    idle: Mutex<Vec<Sqlite>>,
}

impl Readers {
    pub(crate) fn new(file: PathBuf) -> Self {
        let (turns, idle) = (Semaphore::new(AT_A_TIME), Mutex::default());
        Self { inner: Arc::new(Inner { file, turns, idle }) }
    }

    /// Runs queries that see one state of the database.
    pub(crate) async fn read<T>(
        &self,
        answer: Answer,
        query: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let closed = |_| StoreError::Unavailable("the store is closed".to_owned());
        let turn = self.inner.turns.acquire().await.map_err(closed)?;
        let read = || {
            let idle = self.inner.idle.lock().pop();
            let mut connection = idle.map_or_else(|| open_reader(&self.inner.file), Ok)?;
            connection.prepare_cached("BEGIN")?.execute([])?;
            let answer = at_once(query(&mut Transaction::new(Connection::Sqlite(&mut connection))));
            // One that cannot be ended is not used again.
            connection.prepare_cached("COMMIT")?.execute([])?;
            self.inner.idle.lock().push(connection);
            answer
        };
        let answer = match answer {
            Answer::Few => read(),
            Answer::Many => elsewhere(read),
        };
        drop(turn);
        answer
    }

    /// No more reads, and no more open files.
    pub(crate) fn close(&self) {
        self.inner.turns.close();
        self.inner.idle.lock().clear();
    }
}

/// The size of a query's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A handful of rows, found by their keys: there before others on the thread could be sent elsewhere.
    Few,
    /// As many as there are, or a page of them: others on the thread should not wait for it.
    Many,
}

/// Lets other tasks go on elsewhere while this one reads, where there is an elsewhere.
fn elsewhere<T>(read: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(read),
        _ => read(),
    }
}
