//! One connection inside a transaction, of either database.

use futures::TryStreamExt as _;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Database, Executor as _};

use crate::error::StoreError;
use crate::value::{Row, Value};

/// Which database this is, for the few statements that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// A file.
    Sqlite,
    /// A server.
    Postgres,
}

impl Dialect {
    /// Appended to a SELECT whose rows are about to be taken: other replicas look elsewhere meanwhile.
    pub(crate) const fn skip_locked(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR UPDATE SKIP LOCKED",
        }
    }
}

/// A connection that a command runs on.
pub(crate) enum Connection<'c> {
    Sqlite(&'c mut sqlx::SqliteConnection),
    Postgres(&'c mut sqlx::PgConnection),
}

/// The text of a statement: a constant, or put together from constants.
pub(crate) trait Sql: Send {
    fn into_text(self) -> String;
}

impl Sql for &'static str {
    fn into_text(self) -> String {
        self.to_owned()
    }
}

impl Sql for String {
    fn into_text(self) -> String {
        self
    }
}

fn bind<'q, DB>(text: String, arguments: Vec<Value>) -> Query<'q, DB, DB::Arguments>
where
    DB: Database,
    Option<i64>: sqlx::Encode<'q, DB> + sqlx::Type<DB>,
    Option<String>: sqlx::Encode<'q, DB> + sqlx::Type<DB>,
{
    arguments.into_iter().fold(sqlx::query(AssertSqlSafe(text)), |query, value| match value {
        Value::Int(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
    })
}

impl Connection<'_> {
    pub(crate) const fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Runs a statement and tells how many rows it changed.
    pub(crate) async fn execute(&mut self, sql: impl Sql, arguments: Vec<Value>) -> Result<u64, StoreError> {
        let text = sql.into_text();
        Ok(match self {
            Self::Sqlite(connection) => connection.execute(bind(text, arguments)).await?.rows_affected(),
            Self::Postgres(connection) => connection.execute(bind(text, arguments)).await?.rows_affected(),
        })
    }

    /// Runs a query and collects its rows.
    pub(crate) async fn rows(
        &mut self,
        sql: impl Sql,
        arguments: Vec<Value>,
    ) -> Result<Vec<Row>, StoreError> {
        let text = sql.into_text();
        Ok(match self {
            Self::Sqlite(connection) => {
                connection.fetch(bind(text, arguments)).map_ok(Row::Sqlite).try_collect().await?
            }
            Self::Postgres(connection) => {
                connection.fetch(bind(text, arguments)).map_ok(Row::Postgres).try_collect().await?
            }
        })
    }

    /// Runs a query that has at most one row.
    pub(crate) async fn row(
        &mut self,
        sql: impl Sql,
        arguments: Vec<Value>,
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql, arguments).await?.into_iter().next())
    }
}
