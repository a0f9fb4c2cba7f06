//! One connection inside a transaction, of either database.

use futures::TryStreamExt as _;
use serde::Serialize;
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor as _};

use crate::error::StoreError;
use crate::sqlite;
use crate::value::{Row, Value, json};

/// The SQL dialect, for the few statements that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// A file.
    Sqlite,
    /// A server.
    Postgres,
}

impl Dialect {
    /// Appended to a SELECT whose rows are about to be written: other replicas wait meanwhile.
    pub(crate) const fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR UPDATE",
        }
    }

    /// Appended to a SELECT whose rows must stay as they are: other replicas that would write them wait meanwhile.
    pub(crate) const fn for_share(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR SHARE",
        }
    }

    /// A query for the members of a JSON list, which takes one argument whatever their number.
    fn each_of(self, place: &str) -> String {
        match self {
            Self::Sqlite => format!("SELECT value FROM json_each({place})"),
            Self::Postgres => format!("SELECT json_array_elements_text({place}::json)"),
        }
    }

    /// A condition that a column is one of these ids, with one argument at `place`. A single id, the usual case, is
    /// compared directly.
    pub(crate) fn any_of<T: ToString + Serialize>(
        self,
        column: &str,
        place: &str,
        ids: &[T],
    ) -> (String, Value) {
        match ids {
            [id] => (format!("{column} = {place}"), Value::Text(Some(id.to_string()))),
            ids => (format!("{column} IN ({})", self.each_of(place)), json(&ids)),
        }
    }

    /// Appended to a SELECT whose rows are about to be claimed: other replicas skip them meanwhile.
    pub(crate) const fn skip_locked(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR UPDATE SKIP LOCKED",
        }
    }
}

/// A connection that a command runs on.
pub(crate) enum Connection<'c> {
    Sqlite(&'c mut rusqlite::Connection),
    Postgres(&'c mut sqlx::PgConnection),
}

/// The text of a statement: a constant, or a text that was composed from constants.
pub(crate) trait Sql: AsRef<str> + Send {
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

fn bind<'q>(sql: impl Sql, arguments: Vec<Value>) -> Query<'q, Postgres, PgArguments> {
    arguments.into_iter().fold(sqlx::query(AssertSqlSafe(sql.into_text())), |query, value| match value {
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

    /// Runs a statement, and returns the number of changed rows.
    pub(crate) async fn execute(&mut self, sql: impl Sql, arguments: Vec<Value>) -> Result<u64, StoreError> {
        match self {
            Self::Sqlite(connection) => sqlite::execute(connection, sql.as_ref(), arguments),
            Self::Postgres(connection) => Ok(connection.execute(bind(sql, arguments)).await?.rows_affected()),
        }
    }

    /// Runs a query and collects its rows.
    pub(crate) async fn rows(
        &mut self,
        sql: impl Sql,
        arguments: Vec<Value>,
    ) -> Result<Vec<Row>, StoreError> {
        match self {
            Self::Sqlite(connection) => {
                Ok(sqlite::rows(connection, sql.as_ref(), arguments)?.into_iter().map(Row::Sqlite).collect())
            }
            Self::Postgres(connection) => {
                Ok(connection.fetch(bind(sql, arguments)).map_ok(Row::Postgres).try_collect().await?)
            }
        }
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
