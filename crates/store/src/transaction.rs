//! The context of a running command: its connection, and its effects so far.

use futures::future::BoxFuture;
use muster_core::ids::{ActionId, ClusterId, TaskId};

use crate::change_order;
use crate::connection::{Connection, Dialect, Sql};
use crate::error::StoreError;
use crate::value::{Row, Value, args};

/// An object that was changed by a commit, for those who wait for its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Touched {
    /// A cluster, its groups or its nodes.
    Cluster(ClusterId),
    /// An action: its state, its owner, or its signals.
    Action(ActionId),
    /// An action that made progress as expected: it was started, or committed a step.
    Progress(ActionId),
    /// An action may now be claimed.
    Work,
    /// A task may now be claimed.
    Tasks,
    /// A task: its state, its progress, or a request to end it.
    Task(TaskId),
    /// Apps, or the clusters that they use.
    Apps,
    /// It is unknown what changed: every subscriber reads again.
    Everything,
}

/// The effects of a command, which its commit makes durable.
#[derive(Debug, Default)]
pub(crate) struct CommitEffects {
    /// The notifications to listeners.
    pub(crate) touched: Vec<Touched>,
    /// True if any row was written.
    pub(crate) wrote: bool,
}

impl CommitEffects {
    pub(crate) fn join(&mut self, other: Self) {
        self.touched.extend(other.touched);
        self.wrote |= other.wrote;
    }
}

/// The number of rows of a command that writes a few.
pub(crate) const FEW: usize = 1;

/// The number of rows of a command that may write many, where only the database knows the number.
pub(crate) const MANY: usize = usize::MAX;

/// An atomic change.
///
/// After a conflict on PostgreSQL a command is retried, so that it must not have state of its own.
pub(crate) trait Command: Send + Sync + 'static {
    /// The result of the command.
    type Output: Send + 'static;

    /// The approximate number of rows that the command writes; see [`MANY`].
    fn rows(&self) -> usize {
        FEW
    }

    /// Runs in a separate transaction, or in a savepoint of a shared one.
    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Self::Output, StoreError>>;
}

/// A running transaction.
pub(crate) struct Transaction<'c> {
    connection: Connection<'c>,
    change: Option<i64>,
    touched: Vec<Touched>,
    wrote: bool,
}

impl<'c> Transaction<'c> {
    pub(crate) const fn new(connection: Connection<'c>) -> Self {
        Self { connection, change: None, touched: Vec::new(), wrote: false }
    }

    pub(crate) const fn dialect(&self) -> Dialect {
        self.connection.dialect()
    }

    pub(crate) async fn execute(&mut self, sql: impl Sql, arguments: Vec<Value>) -> Result<u64, StoreError> {
        let rows = self.connection.execute(sql, arguments).await?;
        self.wrote |= rows > 0;
        Ok(rows)
    }

    /// Runs an UPDATE … RETURNING that changes at most one row.
    pub(crate) async fn update(
        &mut self,
        sql: impl Sql,
        arguments: Vec<Value>,
    ) -> Result<Option<Row>, StoreError> {
        let row = self.connection.row(sql, arguments).await?;
        self.wrote |= row.is_some();
        Ok(row)
    }

    pub(crate) async fn rows(
        &mut self,
        sql: impl Sql,
        arguments: Vec<Value>,
    ) -> Result<Vec<Row>, StoreError> {
        self.connection.rows(sql, arguments).await
    }

    pub(crate) async fn row(
        &mut self,
        sql: impl Sql,
        arguments: Vec<Value>,
    ) -> Result<Option<Row>, StoreError> {
        self.connection.row(sql, arguments).await
    }

    /// Runs a query that always has one row.
    pub(crate) async fn one(&mut self, sql: impl Sql, arguments: Vec<Value>) -> Result<Row, StoreError> {
        let row = self.row(sql, arguments).await?;
        row.ok_or_else(|| StoreError::corrupt("a row is missing that is always there"))
    }

    /// Notifies the listeners of a change once this transaction is committed.
    pub(crate) fn touch(&mut self, touched: Touched) {
        if !self.touched.contains(&touched) {
            self.touched.push(touched);
        }
    }

    /// The effects of the commands, which are announced after the commit.
    pub(crate) fn into_effects(self) -> CommitEffects {
        CommitEffects { touched: self.touched, wrote: self.wrote }
    }

    /// The number of this transaction in the change feed, drawn at the first call.
    pub(crate) async fn change(&mut self) -> Result<i64, StoreError> {
        if let Some(change) = self.change {
            return Ok(change);
        }
        let change = change_order::draw(self).await?;
        self.change = Some(change);
        Ok(change)
    }

    /// Draws the next fence. Later draws are higher, on every replica.
    pub(crate) async fn next_fence(&mut self) -> Result<i64, StoreError> {
        match self.dialect() {
            Dialect::Sqlite => self.next("fence").await,
            Dialect::Postgres => self.one("SELECT nextval('fences')", args![]).await?.int(0),
        }
    }

    /// Makes all later fences higher than `above`; returns true if they had to be raised.
    pub(crate) async fn raise_fences(&mut self, above: i64) -> Result<bool, StoreError> {
        const SQLITE: &str =
            "UPDATE counters SET value = $1 WHERE name = 'fence' AND value < $1 RETURNING value";
        // Other transactions draw fences between the comparison and the write: a thousand are skipped for them.
        const POSTGRES: &str = "SELECT setval('fences', $1 + 1000) FROM fences WHERE last_value < $1";
        const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(7305414)";
        let raised = match self.dialect() {
            Dialect::Sqlite => self.update(SQLITE, args![above]).await?,
            Dialect::Postgres => {
                self.row(ONE_AT_A_TIME, args![]).await?;
                self.update(POSTGRES, args![above]).await?
            }
        };
        Ok(raised.is_some())
    }

    pub(crate) async fn next(&mut self, counter: &str) -> Result<i64, StoreError> {
        const NEXT: &str = "UPDATE counters SET value = value + 1 WHERE name = $1 RETURNING value";
        let row = self.update(NEXT, args![counter]).await?;
        row.ok_or_else(|| StoreError::corrupt(format!("the counter '{counter}' is missing")))?.int(0)
    }

    /// The present time, by the server's clock where there is a server: leases of several replicas are compared by one
    /// clock.
    pub(crate) async fn database_now(&mut self) -> Result<i64, StoreError> {
        let now = match self.dialect() {
            Dialect::Sqlite => "SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
            Dialect::Postgres => "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
        };
        self.one(now, args![]).await?.int(0)
    }
}
