//! The store: one interface for commands and reads over both databases.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hash;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Weak};
use std::time::Instant;

use serde::Serialize;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connection::Dialect;
use crate::error::StoreError;
use crate::listen;
use crate::metrics::Metrics;
use crate::migrate;
use crate::postgres::{Lane, PostgresServer};
use crate::readers::{Readers, ResultSize};
use crate::shared::{Listener, Shared};
use crate::sqlite;
use crate::transaction::{Command, Touched, Transaction};
use crate::value::{Row, args};
use crate::writer::SqliteWriter;

/// All rows of Muster. Handles are cheap to clone.
#[derive(Clone)]
pub struct Store {
    backend: Backend,
    shared: Shared,
    /// Ends the tasks for notices when the last handle is dropped.
    _listening: Option<Arc<DropGuard>>,
}

#[derive(Clone)]
enum Backend {
    Sqlite { writer: SqliteWriter, readers: Readers },
    Postgres(PostgresServer),
}

impl Store {
    /// Opens a database file, and creates it if it does not exist. No other process may have it open for writing.
    pub async fn open_file(path: &Path) -> Result<Self, StoreError> {
        let shared = Shared::new();
        let (file, shared_with_writer) = (path.to_owned(), shared.clone());
        let opened = tokio::task::spawn_blocking(move || -> Result<_, StoreError> {
            let mut connection = sqlite::open_writer(&file)?;
            migrate::sqlite(&mut connection)?;
            let writer = SqliteWriter::start(connection, shared_with_writer)?;
            Ok(Backend::Sqlite { writer, readers: Readers::new(file) })
        });
        let backend = opened.await.map_err(|error| StoreError::Unavailable(error.to_string()))??;
        Ok(Self { backend, shared, _listening: None })
    }

    /// Checks that a text is the address of a PostgreSQL server. The error does not repeat the text, which may contain
    /// a password.
    pub fn check_url(url: &str) -> Result<(), String> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err("it does not begin with postgres://".to_owned());
        }
        url.parse::<PgConnectOptions>().map(drop).map_err(|error| error.to_string())
    }

    /// Connects to a PostgreSQL server, which several replicas may share.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let shared = Shared::new();
        let server = PostgresServer::connect(url, shared.id()).await?;
        migrate::postgres(&server.pool).await?;
        let done = CancellationToken::new();
        let listening = listen::follow(server.pool.clone(), shared.clone());
        let notifier = Arc::clone(&server.notifier);
        let until = done.clone();
        tokio::spawn(async move {
            let both = async { tokio::join!(Box::pin(listening), notifier.run()) };
            until.run_until_cancelled(both).await
        });
        Ok(Self { backend: Backend::Postgres(server), shared, _listening: Some(Arc::new(done.drop_guard())) })
    }

    /// The dialect of the database.
    pub fn dialect(&self) -> Dialect {
        match self.backend {
            Backend::Sqlite { .. } => Dialect::Sqlite,
            Backend::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Notifies a listener of all later commits, including those of other replicas, until the listener is dropped.
    pub fn listen(&self, listener: Weak<dyn Listener>) {
        self.shared.listen(listener);
    }

    /// Subscribes to all later commits, including those of other replicas. A subscriber that lags has to read
    /// everything again.
    pub fn subscribe(&self) -> broadcast::Receiver<Touched> {
        self.shared.subscribe()
    }

    /// The number of commits with changes by this process.
    pub fn commits(&self) -> u64 {
        self.shared.metrics().commits.get()
    }

    /// The metrics of the store.
    pub fn metrics(&self) -> &Metrics {
        self.shared.metrics()
    }

    /// The reason why the last write failed (a full disk, a locked file, no connection), until one succeeds.
    pub fn write_failure(&self) -> Option<String> {
        self.shared.broken()
    }

    /// Checks that the database responds.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.read(async |tx| tx.row("SELECT 1", args![]).await).await.map(drop)
    }

    /// The id of the database, which was drawn when it was created.
    pub async fn database_id(&self) -> Result<String, StoreError> {
        self.read(async |tx| tx.one("SELECT database_id FROM muster", args![]).await?.text(0)).await
    }

    /// The key that signs page tokens: the same on every replica, and after a restart.
    pub async fn token_key(&self) -> Result<String, StoreError> {
        self.read(async |tx| tx.one("SELECT token_key FROM muster", args![]).await?.text(0)).await
    }

    /// Closes all connections to a server, or the readers of a file; the writer of a file is closed with the last
    /// handle.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Sqlite { readers, .. } => readers.close(),
            Backend::Postgres(server) => server.close().await,
        }
    }

    /// Executes a command; `name` is for the metrics.
    pub(crate) fn write<C: Command>(
        &self,
        name: &'static str,
        command: C,
    ) -> impl Future<Output = Result<C::Output, StoreError>> {
        self.write_in(Lane::Work, name, command)
    }

    /// Executes a command on a lane.
    pub(crate) async fn write_in<C: Command>(
        &self,
        lane: Lane,
        name: &'static str,
        command: C,
    ) -> Result<C::Output, StoreError> {
        let begun = Instant::now();
        let result = match &self.backend {
            Backend::Sqlite { writer, .. } => writer.run(command).await,
            Backend::Postgres(server) => Box::pin(server.write(lane, self.shared.clone(), command)).await,
        };
        self.shared.metrics().done(name, begun.elapsed(), &result);
        if let Err(error) = &result {
            self.shared.failed(error);
        }
        result
    }

    /// Runs queries in one snapshot of the database that find a few rows by their keys.
    pub(crate) async fn read<T>(
        &self,
        query: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.measured(ResultSize::Few, query).await
    }

    /// Runs queries in one snapshot of the database that may find many rows.
    pub(crate) async fn read_many<T>(
        &self,
        query: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.measured(ResultSize::Many, query).await
    }

    /// The ids among these that a query returns; `query` gets the condition that `column` is one of the ids.
    pub(crate) async fn existing<T>(
        &self,
        ids: &[T],
        column: &str,
        query: impl FnOnce(&str) -> String,
    ) -> Result<HashSet<T>, StoreError>
    where
        T: ToString + Serialize + FromStr<Err: Display> + Eq + Hash,
    {
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let (condition, ids) = self.dialect().any_of(column, "$1", ids);
        let sql = query(&condition);
        self.read_many(async |tx| tx.rows(sql, args![ids]).await?.iter().map(|row| row.parse(0)).collect())
            .await
    }

    /// The row of a query outside of any transaction on a server; `None` on SQLite.
    pub(crate) async fn ask_server(&self, sql: &'static str) -> Result<Option<Row>, StoreError> {
        match &self.backend {
            Backend::Sqlite { .. } => Ok(None),
            Backend::Postgres(server) => server.query_row(sql).await.map(Some),
        }
    }

    pub(crate) async fn measured<T>(
        &self,
        size: ResultSize,
        query: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let result = self.query(size, query).await;
        self.shared.metrics().done("read", begun.elapsed(), &result);
        result
    }

    async fn query<T>(
        &self,
        size: ResultSize,
        query: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &self.backend {
            Backend::Sqlite { readers, .. } => readers.read(size, query).await,
            Backend::Postgres(server) => server.read(query).await,
        }
    }
}
