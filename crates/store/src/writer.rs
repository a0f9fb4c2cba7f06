//! SQLite's one writer: commands that wait together are committed together.

use rusqlite::Connection as Sqlite;
use tokio::sync::{mpsc, oneshot};

use crate::connection::Connection;
use crate::error::StoreError;
use crate::shared::Shared;
use crate::sqlite::at_once;
use crate::transaction::{Command, Effects, Transaction};

/// Commands that may wait before callers have to: enough that a full group is always at hand.
const QUEUE: usize = 1024;

/// Commands in one commit. More would only make the first of them wait longer.
const GROUP: usize = 128;

/// A command with the place where its answer goes.
trait Job: Send {
    /// Runs it, and tells what it did, or that it failed and has to be undone.
    fn run(&mut self, connection: &mut Sqlite) -> Option<Effects>;

    /// Answers, once it is known whether the group was committed.
    fn answer(self: Box<Self>, committed: Result<(), &StoreError>);
}

struct Pending<C: Command> {
    command: C,
    result: Option<Result<C::Output, StoreError>>,
    reply: oneshot::Sender<Result<C::Output, StoreError>>,
}

impl<C: Command> Job for Pending<C> {
    fn run(&mut self, connection: &mut Sqlite) -> Option<Effects> {
        let mut tx = Transaction::new(Connection::Sqlite(connection));
        let result = at_once(self.command.run(&mut tx));
        let effects = tx.into_effects();
        let worked = result.is_ok();
        self.result = Some(result);
        worked.then_some(effects)
    }

    fn answer(self: Box<Self>, committed: Result<(), &StoreError>) {
        let result = match (committed, self.result) {
            (Ok(()), Some(result)) | (Err(_), Some(result @ Err(_))) => result,
            (Err(error), _) => Err(StoreError::Unavailable(error.to_string())),
            (Ok(()), None) => Err(StoreError::Unavailable("the command was not run".to_owned())),
        };
        // Whoever asked may have gone; what was committed stays.
        drop(self.reply.send(result));
    }
}

/// The way to the writer.
#[derive(Clone)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
}

impl Writer {
    /// Starts the thread that owns the only writing connection; it ends when the last handle is gone.
    pub(crate) fn start(connection: Sqlite, shared: Shared) -> Result<Self, StoreError> {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || write_groups(&mut { connection }, waiting, &shared))
            .map_err(|error| StoreError::Unavailable(format!("no thread for the database: {error}")))?;
        Ok(Self { jobs })
    }

    pub(crate) async fn run<C: Command>(&self, command: C) -> Result<C::Output, StoreError> {
        let closed = || StoreError::Unavailable("the store is closed".to_owned());
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Pending { command, result: None, reply });
        self.jobs.send(job).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

fn write_groups(connection: &mut Sqlite, mut waiting: mpsc::Receiver<Box<dyn Job>>, shared: &Shared) {
    let mut group = Vec::with_capacity(GROUP);
    while waiting.blocking_recv_many(&mut group, GROUP) > 0 {
        let outcome = write_group(connection, &mut group);
        if let Ok(effects) = &outcome {
            shared.committed(effects);
        }
        for job in group.drain(..) {
            job.answer(outcome.as_ref().map(|_| ()));
        }
    }
}

fn write_group(connection: &mut Sqlite, group: &mut [Box<dyn Job>]) -> Result<Effects, StoreError> {
    statement(connection, "BEGIN IMMEDIATE")?;
    let written = write_all(connection, group);
    if written.is_err() {
        // After a full disk the transaction may still be open; without this every later BEGIN would fail.
        drop(statement(connection, "ROLLBACK"));
    }
    written
}

fn write_all(connection: &mut Sqlite, group: &mut [Box<dyn Job>]) -> Result<Effects, StoreError> {
    let alone = group.len() == 1;
    let mut all = Effects::default();
    for job in group {
        if !alone {
            statement(connection, "SAVEPOINT command")?;
        }
        match (job.run(connection), alone) {
            (Some(effects), _) => all.join(effects),
            (None, true) => {
                statement(connection, "ROLLBACK")?;
                return Ok(Effects::default());
            }
            (None, false) => statement(connection, "ROLLBACK TO command")?,
        }
        if !alone {
            statement(connection, "RELEASE command")?;
        }
    }
    statement(connection, "COMMIT")?;
    Ok(all)
}

fn statement(connection: &Sqlite, sql: &'static str) -> Result<(), StoreError> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
