//! Connections to a PostgreSQL server that is shared with other replicas, with time limits that keep one replica from
//! blocking the others.
//!
//! A replica whose machine dies, or whose network is cut, does not close its connections: its transactions stay open,
//! with the rows that they have locked, until the server ends them. Therefore sessions are configured so that the
//! server ends transactions that wait too long, and every command has a time-out.

use std::collections::BTreeSet;
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
use crate::notifier::CommitNotifier;
use crate::shared::Shared;
use crate::transaction::{Command, Transaction};
use crate::value::{Row, args};

/// The limits that the server enforces on sessions of Muster, unless the address sets them: for the idle time of a
/// transaction, the wait of a statement for a lock, and the run time of a statement; and the time after which an
/// unresponsive client counts as gone.
const SESSION_LIMITS: &[(&str, &str)] = &[
    ("idle_in_transaction_session_timeout", "5s"),
    ("lock_timeout", "5s"),
    ("statement_timeout", "30s"),
    ("tcp_user_timeout", "10s"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
];

/// The number of connections for commands and reads: several replicas stay below the server's default limit of 100.
const CONNECTIONS: u32 = 24;

/// The time-out of the first connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The longest wait for a free connection.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(10);

/// The time-out of a whole transaction: longer than the server's limit for a statement, so that only an unreachable
/// server exceeds it.
const TRANSACTION_LIMIT: Duration = Duration::from_secs(40);

/// The time-out for the renewal of a lease, which is useless if it is late.
const RENEWAL_LIMIT: Duration = Duration::from_secs(4);

/// The longest wait for connections to close.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// The idle time after which a connection is probed before it is used.
const PROBE_AFTER: Duration = Duration::from_secs(1);

/// The time-out of a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// The largest number of attempts of a command that conflicts with others.
const ATTEMPTS: u32 = 8;

/// The time after which a conflicting command is not retried: it waited for a lock that is not released.
const ATTEMPT_AGAIN_WITHIN: Duration = Duration::from_secs(4);

/// The back-off of conflicting commands, with jitter so that they do not conflict again. All delays together are less
/// than a second, because a caller waits for them.
const BACKOFF: Backoff = Backoff { first: TimeSpan::from_millis(6), longest: TimeSpan::from_millis(200) };

/// The connections of one replica.
#[derive(Clone)]
pub(crate) struct PostgresServer {
    pub(crate) pool: PgPool,
    /// A separate connection for renewals of leases, so that they never wait for other commands.
    leases: PgPool,
    pub(crate) notifier: Arc<CommitNotifier>,
}

/// The purpose of a command, which selects its connection pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Work,
    Lease,
}

impl PostgresServer {
    /// Connects to the server at `url`. `id` identifies this replica in notices.
    pub(crate) async fn connect(url: &str, id: &str) -> Result<Self, StoreError> {
        let options: PgConnectOptions =
            url.parse().map_err(|error: sqlx::Error| StoreError::Unavailable(error.to_string()))?;
        let options = limited(options);
        // Tried without a pool, which would retry until its time-out and then hide the cause.
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
        Ok(Self { pool, leases, notifier: Arc::new(CommitNotifier::new(notices, id)) })
    }

    /// Executes a command, even if the caller is cancelled meanwhile, so that every commit is announced.
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

    /// Runs queries in one snapshot of the database.
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

    /// Runs a query that always has one row, outside of any transaction.
    pub(crate) async fn query_row(&self, sql: &'static str) -> Result<Row, StoreError> {
        let mut session = Session::open(&self.pool).await?;
        let work =
            async { Transaction::new(Connection::Postgres(&mut session.connection)).one(sql, args![]).await };
        let result = timeout(TRANSACTION_LIMIT, work).await;
        session.close(result, TRANSACTION_LIMIT)
    }

    /// Closes all connections; unresponsive ones are closed when the process ends.
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
    listeners: (&Shared, &CommitNotifier),
    command: &C,
) -> Result<C::Output, StoreError> {
    let mut session = Session::open(pool).await?;
    let result = timeout(limit, transact(&mut session.connection, listeners, command)).await;
    session.close(result, limit)
}

async fn transact<C: Command>(
    connection: &mut PgConnection,
    (shared, notifier): (&Shared, &CommitNotifier),
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

/// A connection while a transaction runs on it. If it is dropped before the transaction has ended, the connection is
/// closed: it may be in the middle of a statement, or unresponsive.
struct Session {
    connection: PoolConnection<Postgres>,
    ended: bool,
}

impl Session {
    async fn open(pool: &PgPool) -> Result<Self, StoreError> {
        Ok(Self { connection: pool.acquire().await?, ended: false })
    }

    /// Returns the connection to its pool, or closes it after a time-out.
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
    let given = setting_names(options.get_options().unwrap_or_default());
    let missing = SESSION_LIMITS.iter().filter(|(name, _)| !given.contains(*name));
    options.options(missing.copied())
}

/// The names of the settings in the options of an address, each `-c name=value`, `-cname=value` or `--name=value`.
fn setting_names(options: &str) -> BTreeSet<String> {
    let (mut words, mut word, mut escaped) = (Vec::new(), String::new(), false);
    for character in options.chars() {
        match character {
            '\\' if !escaped => escaped = true,
            blank if blank.is_ascii_whitespace() && !escaped => words.push(std::mem::take(&mut word)),
            other => {
                word.push(other);
                escaped = false;
            }
        }
    }
    words.push(word);
    let mut words = words.iter().map(String::as_str).filter(|word| !word.is_empty());
    let mut names = BTreeSet::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next(),
            setting => setting,
        };
        // PostgreSQL ignores the case of names, and reads a dash in a name as an underscore.
        let name = setting.and_then(|setting| setting.split('=').next());
        names.extend(name.map(|name| name.to_ascii_lowercase().replace('-', "_")));
    }
    names
}

fn pool_options(connections: u32, acquire_limit: Duration) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(acquire_limit)
        // The pool's own test has no time-out.
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
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::as_two_words("-c%20lock_timeout%3D9s")]
    #[case::as_one_word("-clock_timeout%3D9s")]
    #[case::as_a_long_option("--lock-timeout%3D9s")]
    #[case::in_capitals("-c%20LOCK_TIMEOUT%3D9s")]
    #[case::beside_an_escaped_blank("-c%20application_name%3Da%5C%20b%20-c%20lock_timeout%3D9s")]
    fn limits_in_an_address_are_kept(#[case] given: &str) {
        let options = limited(format!("postgres://localhost/muster?options={given}").parse().unwrap());
        let options = options.get_options().unwrap();
        assert!(!options.contains("lock_timeout=5s"), "{options}");
        assert!(options.contains("statement_timeout=30s"), "{options}");
    }

    #[rstest]
    #[case::a_longer_name("-c%20deadlock_timeout%3D1s")]
    #[case::in_a_value("-c%20application_name%3Dlock_timeout")]
    #[case::in_an_escaped_value("-c%20application_name%3Da%5C%20-c%5C%20lock_timeout%3D9s")]
    fn a_limit_is_kept_if_the_address_only_mentions_its_name(#[case] given: &str) {
        let options = limited(format!("postgres://localhost/muster?options={given}").parse().unwrap());
        let options = options.get_options().unwrap();
        assert!(options.contains("-c lock_timeout=5s"), "{options}");
    }
}
