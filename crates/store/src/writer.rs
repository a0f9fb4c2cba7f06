//! The only writer of an SQLite file. A caller that finds it idle writes at once on its own thread; commands that
//! arrive meanwhile are queued for the writer's thread, which commits them together.

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
use crate::transaction::{Command, CommitEffects, Transaction};
use crate::write_connection::{OpenTransaction, WriteConnection, is_busy};

/// The capacity of the queue, after which callers wait: enough to fill several groups.
const QUEUE: usize = 1024;

/// The largest number of commands in one commit. More would only delay the first of them.
const GROUP: usize = 128;

/// The largest number of rows that are written on the caller's thread: they take about a millisecond, as long as the
/// commit itself.
const ROWS_AT_ONCE: usize = 100;

/// A queued command with its reply channel.
trait QueuedCommand: Send {
    /// Runs the command, and returns its effects, or `None` if it failed and has to be rolled back.
    fn run(&mut self, connection: &mut Sqlite) -> Option<CommitEffects>;

    /// Sends the reply, once it is known whether the group was committed.
    fn answer(self: Box<Self>, committed: Result<(), &StoreError>);
}

/// The result of a command, or the panic that ended it, which is resumed in the caller.
type CommandResult<T> = thread::Result<Result<T, StoreError>>;

struct Pending<C: Command> {
    command: C,
    result: Option<CommandResult<C::Output>>,
    reply: oneshot::Sender<CommandResult<C::Output>>,
    place: QueueSlot,
}

impl<C: Command> QueuedCommand for Pending<C> {
    fn run(&mut self, connection: &mut Sqlite) -> Option<CommitEffects> {
        let mut tx = Transaction::new(Connection::Sqlite(connection));
        // The partial writes of a panicking command are rolled back with its savepoint or transaction.
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
        // Before the reply, so that the caller's next command can find the writer idle.
        drop(place);
        // The caller may have been cancelled; the commit stays.
        drop(reply.send(result));
    }
}

/// A place in the queue, taken before the command is sent and freed when it is answered or dropped.
struct QueueSlot(Arc<AtomicUsize>);

impl QueueSlot {
    fn acquire(taken: &Arc<AtomicUsize>) -> Self {
        taken.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(taken))
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The handle of the writer.
#[derive(Clone)]
pub(crate) struct SqliteWriter {
    connection: Arc<WriteConnection>,
    jobs: mpsc::Sender<Box<dyn QueuedCommand>>,
    places: Arc<AtomicUsize>,
}

impl SqliteWriter {
    /// Takes the only writing connection, and starts the thread that writes queued commands; both end with the last
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

    /// Runs a command at once on this thread; returns `None`, without any effect, if the command has to be queued.
    ///
    /// This blocks a thread of the runtime for one commit, a fraction of a millisecond; a switch to another thread and
    /// back costs more than the commit (`block_in_place` is such a switch, for all other tasks of this thread). At most
    /// one thread is blocked, because there is one connection, and only for a short time: commands that are large, that
    /// would have to wait for another process, or that arrive while the disk is slow, are queued. So are commands that
    /// find other commands in the queue: under load commands are grouped.
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
        let place = QueueSlot::acquire(&self.places);
        let job = Box::new(Pending { command, result: None, reply, place });
        self.jobs.send(job).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

fn write_groups(connection: &WriteConnection, mut waiting: mpsc::Receiver<Box<dyn QueuedCommand>>) {
    let mut group = Vec::with_capacity(GROUP);
    while let Some(first) = waiting.blocking_recv() {
        group.push(first);
        let written = {
            let mut guard = connection.lock();
            // More commands may have been queued during the last write.
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

fn write_group(open: OpenTransaction<'_>, group: &mut [Box<dyn QueuedCommand>]) -> Result<(), StoreError> {
    let alone = group.len() == 1;
    let mut all = CommitEffects::default();
    for job in group {
        if !alone {
            open.statement("SAVEPOINT command")?;
        }
        match (job.run(open.connection), alone) {
            (Some(effects), _) => all.join(effects),
            // The open transaction is dropped, which rolls it back.
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
