//! The store: commands go in, rows come out, whatever database is below.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use muster_core::backoff::Backoff;
use muster_core::time::TimeSpan;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, PgPool};
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connection::{Connection, Dialect};
use crate::error::StoreError;
use crate::metrics::Metrics;
use crate::migrate;
use crate::notice::touched_in;
use crate::readers::{Answer, Readers};
use crate::shared::{Listener, Shared};
use crate::sqlite;
use crate::transaction::{Command, Touched, Transaction};
use crate::value::args;
use crate::writer::Writer;

/// Connections to PostgreSQL: a few replicas stay below its default of 100.
const POSTGRES_CONNECTIONS: u32 = 24;

/// How long a server may take to answer at the start.
const REACHED_WITHIN: Duration = Duration::from_secs(10);

/// How often a command is run again that lost against another one.
const ATTEMPTS: u32 = 8;

/// Commands that lost against the same one wait differently long, so that they do not meet again. Together less than a
/// second, for as long as a caller may be held up.
const BACKOFF: Backoff = Backoff { first: TimeSpan::from_millis(6), longest: TimeSpan::from_millis(200) };

/// The channel on which replicas tell each other of commits.
const CHANNEL: &str = "muster_touched";

/// All rows of Muster. Handles are cheap to clone.
#[derive(Clone)]
pub struct Store {
    backend: Backend,
    shared: Shared,
    /// Ends the listener with the last handle.
    _listening: Option<Arc<DropGuard>>,
}

#[derive(Clone)]
enum Backend {
    Sqlite { writer: Writer, readers: Readers },
    Postgres { pool: PgPool },
}

impl Store {
    /// Opens, or makes, a database in a file. Nobody else may have it open for writing.
    pub async fn open_file(path: &Path) -> Result<Self, StoreError> {
        let shared = Shared::new();
        let (file, told) = (path.to_owned(), shared.clone());
        let opened = tokio::task::spawn_blocking(move || -> Result<_, StoreError> {
            let mut connection = sqlite::open_writer(&file)?;
            migrate::sqlite(&mut connection)?;
            let writer = Writer::start(connection, told)?;
            Ok(Backend::Sqlite { writer, readers: Readers::new(file) })
        });
        let backend = opened.await.map_err(|error| StoreError::Unavailable(error.to_string()))??;
        Ok(Self { backend, shared, _listening: None })
    }

    /// Whether a text is the address of a PostgreSQL, or why not. The text is not repeated: it may hold a password.
    pub fn check_url(url: &str) -> Result<(), String> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err("it does not begin with postgres://".to_owned());
        }
        url.parse::<PgConnectOptions>().map(drop).map_err(|error| error.to_string())
    }

    /// Connects to a PostgreSQL that several replicas may share.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let options: PgConnectOptions =
            url.parse().map_err(|error: sqlx::Error| StoreError::Unavailable(error.to_string()))?;
        // A pool would try for as long as it may, and then say only that it did.
        let place = format!("{}:{}", options.get_host(), options.get_port());
        let unreachable = |why: &dyn std::fmt::Display| {
            StoreError::Unavailable(format!(
                "no PostgreSQL answers at {place} ({why}): start it, or change the address"
            ))
        };
        match tokio::time::timeout(REACHED_WITHIN, options.connect()).await {
            Err(_) => return Err(unreachable(&format!("nothing in {} s", REACHED_WITHIN.as_secs()))),
            Ok(Err(sqlx::Error::Io(error))) => return Err(unreachable(&error)),
            Ok(Err(error)) => return Err(error.into()),
            Ok(Ok(connection)) => drop(connection.close().await),
        }
        let pool = PgPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS)
            .acquire_timeout(Duration::from_secs(10))
            .connect_with(options)
            .await?;
        migrate::postgres(&pool).await?;
        let shared = Shared::new();
        let done = CancellationToken::new();
        let listening = listen(pool.clone(), shared.clone());
        let until = done.clone();
        tokio::spawn(async move { until.run_until_cancelled(listening).await });
        Ok(Self {
            backend: Backend::Postgres { pool },
            shared,
            _listening: Some(Arc::new(done.drop_guard())),
        })
    }

    /// Which database is below.
    pub fn dialect(&self) -> Dialect {
        match self.backend {
            Backend::Sqlite { .. } => Dialect::Sqlite,
            Backend::Postgres { .. } => Dialect::Postgres,
        }
    }

    /// Tells somebody of commits from now on, of other replicas too, for as long as there is somebody.
    pub fn listen(&self, listener: Weak<dyn Listener>) {
        self.shared.listen(listener);
    }

    /// Tells of commits from now on, of other replicas too. Whoever falls behind has to read again.
    pub fn subscribe(&self) -> broadcast::Receiver<Touched> {
        self.shared.subscribe()
    }

    /// How many commits this process has made that wrote something.
    pub fn commits(&self) -> u64 {
        self.shared.metrics().commits.get()
    }

    /// What is counted here.
    pub fn metrics(&self) -> &Metrics {
        self.shared.metrics()
    }

    /// Why the last write failed (a full disk, a locked file, no connection), until one works again.
    pub fn write_failure(&self) -> Option<String> {
        self.shared.broken()
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.read(async |tx| tx.row("SELECT 1", args![]).await).await.map(drop)
    }

    /// Which database this is: an id that it was given when it was made.
    pub async fn database_id(&self) -> Result<String, StoreError> {
        self.read(async |tx| tx.one("SELECT database_id FROM muster", args![]).await?.text(0)).await
    }

    /// What tokens that doors give out are signed with: the same on every replica, and after a restart.
    pub async fn token_key(&self) -> Result<String, StoreError> {
        self.read(async |tx| tx.one("SELECT token_key FROM muster", args![]).await?.text(0)).await
    }

    /// Ends all connections to a server; a file is left when its last handle goes.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Sqlite { readers, .. } => readers.close(),
            Backend::Postgres { pool } => pool.close().await,
        }
    }

    /// Carries out a command; its name is for the metrics.
    pub(crate) async fn write<C: Command>(
        &self,
        name: &'static str,
        command: C,
    ) -> Result<C::Output, StoreError> {
        let begun = Instant::now();
        let result = match &self.backend {
            Backend::Sqlite { writer, .. } => writer.run(command).await,
            Backend::Postgres { pool } => self.write_postgres(pool, &command).await,
        };
        self.shared.metrics().done(name, begun.elapsed(), &result);
        if let Err(error) = &result {
            self.shared.failed(error);
        }
        result
    }

    async fn write_postgres<C: Command>(&self, pool: &PgPool, command: &C) -> Result<C::Output, StoreError> {
        let mut attempt = 1;
        loop {
            match self.try_postgres(pool, command).await {
                Err(StoreError::Contended(_)) if attempt < ATTEMPTS => {
                    tokio::time::sleep(BACKOFF.delay(attempt, fastrand::f64()).into()).await;
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    async fn try_postgres<C: Command>(&self, pool: &PgPool, command: &C) -> Result<C::Output, StoreError> {
        let mut connection = begin(pool, "BEGIN").await?;
        let mut tx = Transaction::new(Connection::Postgres(&mut connection));
        let output = command.run(&mut tx).await?;
        tx.notify(CHANNEL, self.shared.id()).await?;
        let effects = tx.into_effects();
        connection.commit().await?;
        self.shared.committed(&effects);
        Ok(output)
    }

    /// Runs queries that see one state of the database, and find a handful of rows by their keys.
    pub(crate) async fn read<T>(
        &self,
        query: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.measured(Answer::Few, query).await
    }

    /// The same for queries that may find many rows.
    pub(crate) async fn read_many<T>(
        &self,
        query: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.measured(Answer::Many, query).await
    }

    pub(crate) async fn measured<T>(
        &self,
        answer: Answer,
        query: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let result = self.query(answer, query).await;
        self.shared.metrics().done("read", begun.elapsed(), &result);
        result
    }

    async fn query<T>(
        &self,
        answer: Answer,
        query: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &self.backend {
            Backend::Sqlite { readers, .. } => readers.read(answer, query).await,
            Backend::Postgres { pool } => {
                let mut connection = begin(pool, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
                query(&mut Transaction::new(Connection::Postgres(&mut connection))).await
            }
        }
    }
}

/// Begins a transaction, also if whoever asks for it goes away meanwhile: a BEGIN that is half-way when it is dropped
/// would leave its connection inside a transaction that nobody ends.
async fn begin(
    pool: &PgPool,
    statement: &'static str,
) -> Result<sqlx::Transaction<'static, sqlx::Postgres>, StoreError> {
    let pool = pool.clone();
    let begun = tokio::spawn(async move { pool.begin_with(statement).await }).await;
    Ok(begun.map_err(|error| StoreError::Unavailable(error.to_string()))??)
}

/// Follows the notices of all replicas for as long as the pool is open.
async fn listen(pool: PgPool, shared: Shared) {
    while !pool.is_closed() {
        let Ok(mut listener) = listener(&pool).await else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        // Notices were missed while there was no listener, and nobody knows which.
        shared.tell(&[Touched::Everything]);
        while let Ok(Some(notice)) = listener.try_recv().await {
            // Of our own commits everybody here was told when they were made.
            let Some((_, others)) = notice.payload().split_once(' ').filter(|(from, _)| *from != shared.id())
            else {
                continue;
            };
            let touched: Vec<Touched> = touched_in(others).collect();
            shared.tell(&touched);
        }
    }
}

async fn listener(pool: &PgPool) -> Result<PgListener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    Ok(listener)
}
