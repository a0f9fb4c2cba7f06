//! A database that a test reads and writes in plain SQL beside the store, like another version of Muster.

use std::collections::BTreeMap;

use muster_store::Store;
use muster_testkit::Database;
use serde_json::{Map, Value};
use sqlx::Connection as _;
use tempfile::TempDir;

use crate::harness::Kind;

/// A row by the names of its columns; JSON is parsed, so that the order of keys does not matter.
pub(crate) type Row = Map<String, Value>;

/// The rows of a table by their primary key.
pub(crate) type Table = BTreeMap<String, Row>;

/// Every table, with the columns of its primary key.
pub(crate) const TABLES: &[(&str, &[&str])] = &[
    ("muster", &["singleton"]),
    ("counters", &["name"]),
    ("engines", &["id"]),
    ("duties", &["name"]),
    ("instances", &["id"]),
    ("profiles", &["id"]),
    ("policies", &["id"]),
    ("clusters", &["id"]),
    ("worker_groups", &["cluster_id", "name"]),
    ("nodes", &["id"]),
    ("bindings", &["id"]),
    ("receivers", &["id"]),
    ("actions", &["id"]),
    ("dependencies", &["action_id", "depends_on"]),
    ("locks", &["target", "action_id"]),
    ("events", &["id"]),
    ("idempotency", &["principal", "request_id"]),
];

/// A database that is dropped with the test.
pub(crate) enum RawDatabase {
    Sqlite(TempDir),
    Postgres(Database),
}

impl RawDatabase {
    /// Runs a script on an empty database; `None` if the machine has no PostgreSQL.
    pub(crate) async fn load(kind: Kind, script: &str) -> Option<Self> {
        let database = match kind {
            Kind::Sqlite => Self::Sqlite(tempfile::tempdir().expect("a temporary folder can be made")),
            Kind::Postgres => Self::Postgres(muster_testkit::postgres().await?.database().await),
        };
        database.execute(script).await;
        Some(database)
    }

    /// Opens the database as a store, which migrates it.
    pub(crate) async fn open(&self) -> Store {
        let opened = match self {
            Self::Sqlite(folder) => Store::open_file(&file(folder)).await,
            Self::Postgres(database) => Store::connect(database.url()).await,
        };
        opened.expect("the database opens")
    }

    /// Runs statements.
    pub(crate) async fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(folder) => connect(folder).execute_batch(sql).expect("the statements run"),
            Self::Postgres(database) => {
                let mut connection =
                    sqlx::PgConnection::connect(database.url()).await.expect("a connection opens");
                let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()));
                sql.execute(&mut connection).await.expect("the statements run");
            }
        }
    }

    /// All tables except those of the database system.
    pub(crate) async fn tables(&self) -> Vec<String> {
        match self {
            Self::Sqlite(folder) => {
                let connection = connect(folder);
                let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
                let mut statement = connection.prepare(sql).expect("a query");
                let names = statement.query_map([], |row| row.get(0)).expect("an answer");
                names.collect::<Result<_, _>>().expect("names")
            }
            Self::Postgres(database) => {
                let sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'";
                database.psql(sql).await.lines().map(str::to_owned).collect()
            }
        }
    }

    /// All rows of a table.
    pub(crate) async fn table(&self, table: &str) -> Table {
        let rows = match self {
            Self::Sqlite(folder) => sqlite_rows(&connect(folder), table),
            Self::Postgres(database) => {
                let sql = format!("SELECT coalesce(json_agg(t), '[]') FROM {table} t");
                serde_json::from_str(&database.psql(&sql).await).expect("rows as JSON")
            }
        };
        let (_, key) = TABLES.iter().find(|(name, _)| *name == table).expect("a table of ours");
        let key = |row: &Row| key.iter().map(|column| row[*column].to_string()).collect::<Vec<_>>().join(" ");
        rows.into_iter().map(parsed).map(|row| (key(&row), row)).collect()
    }
}

/// The statement that sets one column of the row with this key.
pub(crate) fn set(table: &str, key: &str, column: &str, text: &str) -> String {
    let (_, columns) = TABLES.iter().find(|(name, _)| *name == table).expect("a table of ours");
    let is = |(column, value): (&&str, &str)| format!("{column} = {}", quoted(value.trim_matches('"')));
    let condition: Vec<String> = columns.iter().zip(key.split(' ')).map(is).collect();
    format!("UPDATE {table} SET {column} = {} WHERE {};\n", quoted(text), condition.join(" AND "))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn file(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("muster.db")
}

fn connect(folder: &TempDir) -> rusqlite::Connection {
    rusqlite::Connection::open(file(folder)).expect("the file opens")
}

fn sqlite_rows(connection: &rusqlite::Connection, table: &str) -> Vec<Row> {
    use rusqlite::types::Value as Cell;
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).expect("a query");
    let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let read = |row: &rusqlite::Row<'_>| {
        let cell = |at: usize| -> rusqlite::Result<Value> {
            Ok(match row.get(at)? {
                Cell::Null => Value::Null,
                Cell::Integer(number) => number.into(),
                Cell::Text(text) => text.into(),
                other => panic!("{table} has {other:?}, which Muster never writes"),
            })
        };
        columns.iter().enumerate().map(|(at, column)| Ok((column.clone(), cell(at)?))).collect()
    };
    statement.query_map([], read).expect("an answer").collect::<Result<_, _>>().expect("rows")
}

fn parsed(row: Row) -> Row {
    let parse = |value: Value| match value.as_str() {
        Some(text) if text.starts_with(['{', '[']) => serde_json::from_str(text).unwrap_or(value),
        _ => value,
    };
    row.into_iter().map(|(column, value)| (column, parse(value))).collect()
}
