//! Connections to a PostgreSQL that is shared with other replicas, and the limits that keep one replica from stopping
//! the others.
//!
//! A replica whose machine dies, or whose network is cut, does not close its connections: its transactions stay open, with
//! the rows that they have locked, until the server ends them. So the server is configured to end transactions that wait
//! too long, and every command here has a time-out.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_core::backoff::Backoff;
use muster_core::time::TimeSpan;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgPool, Postgres};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::error::StoreError;
use crate::notifier::Notifier;
use crate::shared::Shared;
use crate::transaction::{Command, Transaction};
use crate::value::{Row, args};

/// Limits that the server enforces on our sessions, unless the address sets them: how long a transaction may do nothing,
/// a statement wait for a lock, and a statement run; and when it takes a client that does not answer for gone.
const SESSION_LIMITS: &[(&str, &str)] = &[
    ("idle_in_transaction_session_timeout", "5s"),
    ("lock_timeout", "5s"),
    ("statement_timeout", "30s"),
    ("tcp_user_timeout", "10s"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
];

/// Connections for everything but leases: a few replicas stay below the server's default of 100.
const CONNECTIONS: u32 = 24;

/// The time-out of the first connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The longest wait for a free connection.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(10);

/// How long a transaction may take as a whole: longer than the server lets any of its statements run. Only a server that
/// cannot be reached any more takes so long.
const TRANSACTION_LIMIT: Duration = Duration::from_secs(40);

/// The time-out for the renewal of a lease, which is useless if it is late.
const RENEWAL_LIMIT: Duration = Duration::from_secs(4);

/// The longest wait for connections to close.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// A connection that was idle for longer is probed before it is used.
const PROBE_AFTER: Duration = Duration::from_secs(1);

/// The time-out of a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// The number of attempts of a command that conflicts with others.
const ATTEMPTS: u32 = 8;

/// A command that conflicted for longer is not attempted again: it waited for a lock that is not released.
const ATTEMPT_AGAIN_WITHIN: Duration = Duration::from_secs(4);

/// Commands that conflicted with each other wait for different times, so that they do not meet again. Together less than
/// a second, for as long as a caller may be held up.
const BACKOFF: Backoff = Backoff { first: TimeSpan::from_millis(6), longest: TimeSpan::from_millis(200) };

/// The connections of one replica.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) pool: PgPool,
    /// Leases are renewed on a connection of their own: they never wait for anything else.
    leases: PgPool,
    pub(crate) notifier: Arc<Notifier>,
}

/// The purpose of a command, which selects its connection pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Work,
    Lease,
}

impl Server {
    /// Connects, or says why that cannot be done. Other replicas know this one by its id.
    pub(crate) async fn connect(url: &str, id: &str) -> Result<Self, StoreError> {
        let options: PgConnectOptions =
            url.parse().map_err(|error: sqlx::Error| StoreError::Unavailable(error.to_string()))?;
        let options = limited(options);
        // A pool would try for as long as it may, and then say only that it did.
        let place = format!("{}:{}", options.get_host(), options.get_port());
        let unreachable = |why: &dyn std::fmt::Display| {
            StoreError::Unavailable(format!(
                "no PostgreSQL answers at {place} ({why}): start it, or change the address"
            ))
        };
        match timeout(CONNECT_LIMIT, options.connect()).await {
            Err(_) => return Err(unreachable(&format!("nothing in {} s", CONNECT_LIMIT.as_secs()))),
            Ok(Err(sqlx::Error::Io(error))) => return Err(unreachable(&error)),
            Ok(Err(error)) => return Err(error.into()),
            Ok(Ok(connection)) => drop(connection.close().await),
        }
        let pool = pool_options(CONNECTIONS, ACQUIRE_LIMIT).connect_with(options.clone()).await?;
        let leases = pool_options(1, RENEWAL_LIMIT).connect_lazy_with(options.clone());
        let notices = pool_options(1, ACQUIRE_LIMIT).connect_lazy_with(options);
        Ok(Self { pool, leases, notifier: Arc::new(Notifier::new(notices, id)) })
    }

    /// Carries a command out, also if its caller goes away meanwhile: what is committed is announced.
    pub(crate) async fn write<C: Command>(
        &self,
        lane: Lane,
        shared: Shared,
        command: C,
    ) -> Result<C::Output, StoreError> {
        let (pool, limit) = match lane {
            Lane::Work => (self.pool.clone(), TRANSACTION_LIMIT),
            Lane::Lease => (self.leases.clone(), RENEWAL_LIMIT),
        };
        let notifier = Arc::clone(&self.notifier);
        let task = tokio::spawn(async move {
            let begun = Instant::now();
            let mut attempt = 1;
            loop {
                let result = attempt_once(&pool, limit, (&shared, &notifier), &command).await;
                let again = attempt < ATTEMPTS && begun.elapsed() < ATTEMPT_AGAIN_WITHIN;
                if !(again && matches!(result, Err(StoreError::Contended(_)))) {
                    return result;
                }
                tokio::time::sleep(BACKOFF.delay(attempt, fastrand::f64()).into()).await;
                attempt += 1;
            }
        });
        match task.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(error) => Err(StoreError::Unavailable(error.to_string())),
            },
        }
    }

    /// Runs queries that see one state of the database.
    pub(crate) async fn read<T>(
        &self,
        query: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut session = Session::open(&self.pool).await?;
        let work = async {
            let mut open =
                session.connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
            query(&mut Transaction::new(Connection::Postgres(&mut open))).await
        };
        let result = timeout(TRANSACTION_LIMIT, work).await;
        session.close(result, TRANSACTION_LIMIT)
    }

    /// Runs one query outside of any transaction, which always has its row.
    pub(crate) async fn ask(&self, sql: &'static str) -> Result<Row, StoreError> {
        let mut session = Session::open(&self.pool).await?;
        let work =
            async { Transaction::new(Connection::Postgres(&mut session.connection)).one(sql, args![]).await };
        let result = timeout(TRANSACTION_LIMIT, work).await;
        session.close(result, TRANSACTION_LIMIT)
    }

    /// Ends all connections; those that do not answer end with the process.
    pub(crate) async fn close(&self) {
        let closed = async {
            tokio::join!(self.pool.close(), self.leases.close());
            self.notifier.send().await;
            self.notifier.pool.close().await;
        };
        drop(timeout(CLOSE_LIMIT, closed).await);
    }
}

async fn attempt_once<C: Command>(
    pool: &PgPool,
    limit: Duration,
    listeners: (&Shared, &Notifier),
    command: &C,
) -> Result<C::Output, StoreError> {
    let mut session = Session::open(pool).await?;
    let result = timeout(limit, transact(&mut session.connection, listeners, command)).await;
    session.close(result, limit)
}

async fn transact<C: Command>(
    connection: &mut PgConnection,
    (shared, notifier): (&Shared, &Notifier),
    command: &C,
) -> Result<C::Output, StoreError> {
    let mut open = connection.begin().await?;
    let mut tx = Transaction::new(Connection::Postgres(&mut open));
    let output = command.run(&mut tx).await?;
    let effects = tx.into_effects();
    open.commit().await?;
    shared.committed(&effects);
    notifier.add(&effects.touched);
    Ok(output)
}

/// A connection while a transaction runs on it. One that is dropped before the transaction ended is closed: it may be in
/// the middle of a statement, or never answer again.
struct Session {
    connection: PoolConnection<Postgres>,
    ended: bool,
}

impl Session {
    async fn open(pool: &PgPool) -> Result<Self, StoreError> {
        Ok(Self { connection: pool.acquire().await?, ended: false })
    }

    /// Gives the connection back to its pool, unless the time ran out.
    fn close<T>(
        mut self,
        result: Result<Result<T, StoreError>, Elapsed>,
        limit: Duration,
    ) -> Result<T, StoreError> {
        self.ended = result.is_ok();
        let silent = || format!("PostgreSQL did not answer within {} s", limit.as_secs());
        result.unwrap_or_else(|_| Err(StoreError::Unavailable(silent())))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.close_on_drop();
        }
    }
}

/// Adds the limits that an address does not set itself.
fn limited(options: PgConnectOptions) -> PgConnectOptions {
    let given = options.get_options().unwrap_or_default().to_owned();
    let missing = SESSION_LIMITS.iter().filter(|(name, _)| !given.contains(name));
    options.options(missing.copied())
}

fn pool_options(connections: u32, acquire_limit: Duration) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(acquire_limit)
        // The pool's own test has no limit.
        .test_before_acquire(false)
        .before_acquire(|connection, usage| {
            Box::pin(async move {
                if usage.idle_for < PROBE_AFTER {
                    return Ok(true);
                }
                let silent = || sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
                timeout(PROBE_LIMIT, connection.ping()).await.map_err(|_| silent())?.map(|()| true)
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_in_an_address_are_kept() {
        let url = "postgres://localhost/muster?options=-c%20lock_timeout%3D9s";
        let options = limited(url.parse().unwrap());
        let options = options.get_options().unwrap();
        assert!(options.contains("lock_timeout=9s"), "{options}");
        assert_eq!(options.matches("lock_timeout").count(), 1, "{options}");
        assert!(options.contains("statement_timeout=30s"), "{options}");
    }
}
