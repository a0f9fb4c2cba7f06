//! SQLite's one writer. A caller that finds it idle writes at once on its own thread; commands that come meanwhile wait together for a
//! thread of their own, and are committed together.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::Connection as Sqlite;
use tokio::sync::{mpsc, oneshot};

use crate::connection::Connection;
use crate::error::StoreError;
use crate::shared::Shared;
use crate::sqlite::{BUSY, at_once};
use crate::transaction::{Command, Effects, Transaction};
use crate::write_connection::{OpenTransaction, WriteConnection, is_busy};

/// Commands that may wait before callers have to: enough that a full group is always at hand.
const QUEUE: usize = 1024;

/// Commands in one commit. More would only make the first of them wait longer.
const GROUP: usize = 128;

/// Rows that are written on the caller's thread: a millisecond's work, about what the commit itself takes.
const ROWS_AT_ONCE: usize = 100;

/// A command with the place where its answer goes.
trait Job: Send {
    /// Runs it, and returns what it did, or that it failed and has to be undone.
    fn run(&mut self, connection: &mut Sqlite) -> Option<Effects>;

    /// Answers, once it is known whether the group was committed.
    fn answer(self: Box<Self>, committed: Result<(), &StoreError>);
}

/// The answer of a command, or the panic that ended it, which is passed on to the caller.
type Answer<T> = thread::Result<Result<T, StoreError>>;

struct Pending<C: Command> {
    command: C,
    result: Option<Answer<C::Output>>,
    reply: oneshot::Sender<Answer<C::Output>>,
    place: Place,
}

impl<C: Command> Job for Pending<C> {
    fn run(&mut self, connection: &mut Sqlite) -> Option<Effects> {
        let mut tx = Transaction::new(Connection::Sqlite(connection));
        // Its partial writes are rolled back with its savepoint.
        let result = catch_unwind(AssertUnwindSafe(|| at_once(self.command.run(&mut tx))));
        let effects = tx.into_effects();
        let worked = matches!(result, Ok(Ok(_)));
        self.result = Some(result);
        worked.then_some(effects)
    }

    fn answer(self: Box<Self>, committed: Result<(), &StoreError>) {
        let Self { result, reply, place, .. } = *self;
        let unavailable = |why: String| Ok(Err(StoreError::Unavailable(why)));
        let result = match (committed, result) {
            (Ok(()), Some(result)) | (Err(_), Some(result @ (Err(_) | Ok(Err(_))))) => result,
            (Err(error), _) => unavailable(error.to_string()),
            (Ok(()), None) => unavailable("the command was not run".to_owned()),
        };
        // Before the answer: a caller that has it may find the writer idle.
        drop(place);
        // The caller may have gone; what was committed stays.
        drop(reply.send(result));
    }
}

/// A place in the queue, from before the command is sent until it is answered or given up.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>) -> Self {
        taken.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(taken))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The handle of the writer.
#[derive(Clone)]
pub(crate) struct Writer {
    connection: Arc<WriteConnection>,
    jobs: mpsc::Sender<Box<dyn Job>>,
    places: Arc<AtomicUsize>,
}

impl Writer {
    /// Takes the only writing connection, and starts the thread that writes what has to wait; both end with the last
    /// handle.
    pub(crate) fn start(connection: Sqlite, shared: Shared) -> Result<Self, StoreError> {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let connection = Arc::new(WriteConnection::new(connection, shared));
        let own = Arc::clone(&connection);
        thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || write_groups(&own, waiting))
            .map_err(|error| StoreError::Unavailable(format!("no thread for the database: {error}")))?;
        Ok(Self { connection, jobs, places: Arc::default() })
    }

    pub(crate) async fn run<C: Command>(&self, command: C) -> Result<C::Output, StoreError> {
        match self.run_at_once(&command) {
            Some(result) => result,
            None => self.run_in_turn(command).await,
        }
    }

    /// Runs a command here and now; none, and nothing has happened, if it has to wait for its turn.
    ///
    /// This holds up a thread of the runtime for one commit, a fraction of a millisecond, where a hand-over to another
    /// thread and back costs more than the commit (and `block_in_place` is such a hand-over, of all the others on this
    /// one). It is never more than one thread, as there is one connection; nor for long: commands that are large, that
    /// would have to wait for another process, or that come while the disk is slow, are not run here. And it is only
    /// for callers that find no other command waiting: under load commands are grouped.
    fn run_at_once<C: Command>(&self, command: &C) -> Option<Result<C::Output, StoreError>> {
        if command.rows() > ROWS_AT_ONCE || self.places.load(Ordering::Acquire) > 0 {
            return None;
        }
        let mut guard = self.connection.try_lock_quick()?;
        let open = match guard.begin(Duration::ZERO) {
            Err(error) if is_busy(&error) => return None,
            Err(error) => return Some(Err(error.into())),
            Ok(open) => open,
        };
        let mut tx = Transaction::new(Connection::Sqlite(open.connection));
        let result = at_once(command.run(&mut tx));
        let effects = tx.into_effects();
        Some(result.and_then(|output| open.commit(&effects).map(|()| output)))
    }

    async fn run_in_turn<C: Command>(&self, command: C) -> Result<C::Output, StoreError> {
        let closed = || StoreError::Unavailable("the store is closed".to_owned());
        let (reply, answer) = oneshot::channel();
        let place = Place::take(&self.places);
        let job = Box::new(Pending { command, result: None, reply, place });
        self.jobs.send(job).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

fn write_groups(connection: &WriteConnection, mut waiting: mpsc::Receiver<Box<dyn Job>>) {
    let mut group = Vec::with_capacity(GROUP);
    while let Some(first) = waiting.blocking_recv() {
        group.push(first);
        let written = {
            let mut guard = connection.lock();
            // More may have come during the last write.
            while group.len() < GROUP
                && let Ok(next) = waiting.try_recv()
            {
                group.push(next);
            }
            let open = guard.begin(BUSY).map_err(StoreError::from);
            open.and_then(|open| write_group(open, &mut group))
        };
        for job in group.drain(..) {
            job.answer(written.as_ref().copied());
        }
    }
}

fn write_group(open: OpenTransaction<'_>, group: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
    let alone = group.len() == 1;
    let mut all = Effects::default();
    for job in group {
        if !alone {
            open.statement("SAVEPOINT command")?;
        }
        match (job.run(open.connection), alone) {
            (Some(effects), _) => all.join(effects),
            // Undone with the transaction.
            (None, true) => return Ok(()),
            (None, false) => open.statement("ROLLBACK TO command")?,
        }
        if !alone {
            open.statement("RELEASE command")?;
        }
    }
    open.commit(&all)
}

#[cfg(test)]
mod tests;
