//! Direct calls of SQLite: a statement takes microseconds, and a switch to another thread would take longer.
//!
//! Statements end before their call returns. Therefore commands and queries, which are written for both databases,
//! never wait here, and [`at_once`] runs them to their end with one poll.

use std::path::Path;
use std::time::Duration;

use futures::FutureExt as _;
use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, ffi};

use crate::error::StoreError;
use crate::value::{Cells, Value};

/// The size of the cache of prepared statements: more than there are different ones.
const STATEMENTS: usize = 256;

/// The longest wait for another process that has locked the file.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Opens the file for writing, and creates it if it does not exist.
pub(crate) fn open_writer(file: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let connection = open(file, flags)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

/// Opens the file for reading.
pub(crate) fn open_reader(file: &Path) -> Result<Connection, StoreError> {
    open(file, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

fn open(file: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    // A killed process would leave temporary files of sorts behind.
    connection.pragma_update(None, "temp_store", "memory")?;
    // Without this option SQLite plans a statement again for each set of bound values, which no index here needs.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Runs a future that only calls SQLite, and therefore never waits.
pub(crate) fn at_once<T>(run: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let waited = || Err(StoreError::corrupt("a command for SQLite waited for something else"));
    run.now_or_never().unwrap_or_else(waited)
}

/// Runs a statement, and returns the number of changed rows.
pub(crate) fn execute(to: &Connection, sql: &str, arguments: Vec<Value>) -> Result<u64, StoreError> {
    let mut statement = prepare(to, sql, arguments)?;
    Ok(u64::try_from(statement.raw_execute()?).unwrap_or_default())
}

/// The log target of all queries, for the level `trace`.
const QUERIES: &str = "muster_store::queries";

/// Runs a query and collects its rows.
pub(crate) fn rows(of: &Connection, sql: &str, arguments: Vec<Value>) -> Result<Vec<Cells>, StoreError> {
    let mut statement = prepare(of, sql, arguments)?;
    if tracing::enabled!(target: QUERIES, tracing::Level::TRACE) {
        // Logged with its arguments, so that the query can be run again.
        tracing::trace!(target: QUERIES, sql = statement.expanded_sql().unwrap_or_default(), "asked");
    }
    let columns = statement.column_count();
    let mut found = Vec::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        found.push(Cells::read(row, columns)?);
    }
    Ok(found)
}

fn prepare<'c>(
    connection: &'c Connection,
    sql: &str,
    arguments: Vec<Value>,
) -> Result<CachedStatement<'c>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut arguments: Vec<Option<Value>> = arguments.into_iter().map(Some).collect();
    for place in 1..=statement.parameter_count() {
        // To SQLite `$3` is a name; its position is that of its first use in the text.
        let number = match statement.parameter_name(place) {
            Some(name) => name.trim_start_matches('$').parse().unwrap_or(usize::MAX),
            None => place,
        };
        let argument = number.checked_sub(1).and_then(|at| arguments.get_mut(at)).and_then(Option::take);
        match argument.ok_or_else(|| StoreError::corrupt(format!("no argument {number} for: {sql}")))? {
            Value::Int(value) => statement.raw_bind_parameter(place, value)?,
            Value::Text(value) => statement.raw_bind_parameter(place, value)?,
        }
    }
    Ok(statement)
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match &error {
            rusqlite::Error::SqliteFailure(why, _) if is_duplicate(*why) => {
                Self::Duplicate(error.to_string())
            }
            // The referenced row was removed meanwhile: a retry reads the new state.
            rusqlite::Error::SqliteFailure(why, _)
                if why.extended_code == ffi::SQLITE_CONSTRAINT_FOREIGNKEY =>
            {
                Self::Contended(error.to_string())
            }
            rusqlite::Error::SqliteFailure(why, _)
                if matches!(why.code, ErrorCode::ConstraintViolation | ErrorCode::TooBig) =>
            {
                Self::Unstorable(error.to_string())
            }
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnIndex(_)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..) => Self::Corrupt(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

fn is_duplicate(error: ffi::Error) -> bool {
    let unique = [ffi::SQLITE_CONSTRAINT_UNIQUE, ffi::SQLITE_CONSTRAINT_PRIMARYKEY];
    error.code == ErrorCode::ConstraintViolation && unique.contains(&error.extended_code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Row, args};

    #[test]
    fn arguments_go_by_their_numbers_and_not_by_where_they_stand() {
        let database = Connection::open_in_memory().unwrap();
        let one = |sql| Row::Sqlite(rows(&database, sql, args!["one", 2_i64]).unwrap().remove(0));
        let found = one("SELECT $2, $1, $2");
        assert_eq!((found.int(0).unwrap(), &*found.text(1).unwrap(), found.int(2).unwrap()), (2, "one", 2));
        let found = one("SELECT ?, ?");
        assert_eq!((&*found.text(0).unwrap(), found.int(1).unwrap()), ("one", 2));
        assert!(found.int(0).is_err() && found.text(1).is_err() && found.text(2).is_err());
    }

    #[test]
    fn a_missing_argument_is_an_error_and_not_a_null() {
        let database = Connection::open_in_memory().unwrap();
        assert!(matches!(rows(&database, "SELECT $1, $2", args![1_i64]), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn only_unique_indexes_report_duplicates() {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL)").unwrap();
        let insert = |id: i64, name: Value| {
            execute(&database, "INSERT INTO t VALUES ($1, $2)", vec![Value::Int(Some(id)), name])
        };
        assert_eq!(insert(1, Value::Text(Some("a".to_owned()))).unwrap(), 1);
        let again = insert(1, Value::Text(Some("b".to_owned())));
        assert!(matches!(again, Err(StoreError::Duplicate(_))), "{again:?}");
        let same = insert(2, Value::Text(Some("a".to_owned())));
        assert!(matches!(same, Err(StoreError::Duplicate(_))), "{same:?}");
        let none = insert(3, Value::Text(None));
        assert!(matches!(none, Err(StoreError::Unstorable(_))), "{none:?}");
    }
}
