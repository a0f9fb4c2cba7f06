//! SQLite's one writer: commands that wait together are committed together.

use futures::future::BoxFuture;
use sqlx::SqliteConnection;
use tokio::sync::{mpsc, oneshot};

use crate::connection::Connection;
use crate::error::StoreError;
use crate::shared::Shared;
use crate::transaction::{Command, Effects, Transaction};

/// Commands that may wait before callers have to: enough that a full group is always at hand.
const QUEUE: usize = 1024;

/// Commands in one commit. More would only make the first of them wait longer.
const GROUP: usize = 128;

/// A command with the place where its answer goes.
trait Job: Send {
    /// Runs it, and tells what it did, or that it failed and has to be undone.
    fn run<'a>(&'a mut self, connection: &'a mut SqliteConnection) -> BoxFuture<'a, Option<Effects>>;

    /// Answers, once it is known whether the group was committed.
    fn answer(self: Box<Self>, committed: Result<(), &StoreError>);
}

struct Pending<C: Command> {
    command: C,
    result: Option<Result<C::Output, StoreError>>,
    reply: oneshot::Sender<Result<C::Output, StoreError>>,
}

impl<C: Command> Job for Pending<C> {
    fn run<'a>(&'a mut self, connection: &'a mut SqliteConnection) -> BoxFuture<'a, Option<Effects>> {
        Box::pin(async move {
            let mut tx = Transaction::new(Connection::Sqlite(connection));
            let result = self.command.run(&mut tx).await;
            let effects = tx.into_effects();
            let worked = result.is_ok();
            self.result = Some(result);
            worked.then_some(effects)
        })
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
    /// Starts the task that owns the only writing connection; it ends when the last handle is gone.
    pub(crate) fn start(connection: SqliteConnection, shared: Shared) -> (Self, tokio::task::JoinHandle<()>) {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        (Self { jobs }, tokio::spawn(write_groups(connection, waiting, shared)))
    }

    pub(crate) async fn run<C: Command>(&self, command: C) -> Result<C::Output, StoreError> {
        let closed = || StoreError::Unavailable("the store is closed".to_owned());
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Pending { command, result: None, reply });
        self.jobs.send(job).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

async fn write_groups(
    mut connection: SqliteConnection,
    mut waiting: mpsc::Receiver<Box<dyn Job>>,
    shared: Shared,
) {
    let mut group = Vec::with_capacity(GROUP);
    while waiting.recv_many(&mut group, GROUP).await > 0 {
        let outcome = write_group(&mut connection, &mut group).await;
        if let Ok(effects) = &outcome {
            shared.committed(effects);
        }
        for job in group.drain(..) {
            job.answer(outcome.as_ref().map(|_| ()));
        }
    }
}

async fn write_group(
    connection: &mut SqliteConnection,
    group: &mut [Box<dyn Job>],
) -> Result<Effects, StoreError> {
    statement(connection, "BEGIN IMMEDIATE").await?;
    let written = write_all(connection, group).await;
    if written.is_err() {
        // After a full disk the transaction may still be open; without this every later BEGIN would fail.
        drop(statement(connection, "ROLLBACK").await);
    }
    written
}

async fn write_all(
    connection: &mut SqliteConnection,
    group: &mut [Box<dyn Job>],
) -> Result<Effects, StoreError> {
    let alone = group.len() == 1;
    let mut all = Effects::default();
    for job in group {
        if !alone {
            statement(connection, "SAVEPOINT command").await?;
        }
        match (job.run(connection).await, alone) {
            (Some(effects), _) => all.join(effects),
            (None, true) => {
                statement(connection, "ROLLBACK").await?;
                return Ok(Effects::default());
            }
            (None, false) => statement(connection, "ROLLBACK TO command").await?,
        }
        if !alone {
            statement(connection, "RELEASE command").await?;
        }
    }
    statement(connection, "COMMIT").await?;
    Ok(all)
}

async fn statement(connection: &mut SqliteConnection, sql: &'static str) -> Result<(), StoreError> {
    sqlx::query(sql).execute(connection).await?;
    Ok(())
}
