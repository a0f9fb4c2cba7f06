//! A store of either kind, fresh for each test.

use muster_store::Store;

use crate::Database;

/// The kind of the database of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseKind {
    /// SQLite, in a file.
    Sqlite,
    /// PostgreSQL, on a server.
    Postgres,
}

/// A database that is removed with the test.
pub struct FreshStore {
    /// The store over the database.
    pub store: Store,
    folder: Option<tempfile::TempDir>,
    database: Option<Database>,
}

impl FreshStore {
    /// Opens a store; `None` if the machine has no PostgreSQL: the test is then reported as skipped.
    pub async fn open(kind: DatabaseKind) -> Option<Self> {
        match kind {
            DatabaseKind::Sqlite => {
                let folder = tempfile::tempdir().expect("a temporary folder can be made");
                let store =
                    Store::open_file(&folder.path().join("muster.db")).await.expect("a new file opens");
                Some(Self { store, folder: Some(folder), database: None })
            }
            DatabaseKind::Postgres => {
                let database = crate::postgres().await?.database().await;
                let store = Store::connect(database.url()).await.expect("a new database opens");
                Some(Self { store, folder: None, database: Some(database) })
            }
        }
    }

    /// The file of an SQLite database.
    pub fn file(&self) -> Option<std::path::PathBuf> {
        Some(self.folder.as_ref()?.path().join("muster.db"))
    }

    /// The database on a PostgreSQL server.
    pub const fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// Runs SQL by `psql` on the server; `None` for SQLite.
    pub async fn psql(&self, sql: &str) -> Option<String> {
        Some(self.database.as_ref()?.psql(sql).await)
    }

    /// Runs a statement beside the store, as another program would.
    pub async fn execute(&self, sql: &str) {
        match (&self.database, self.file()) {
            (Some(database), _) => drop(database.psql(sql).await),
            (None, Some(file)) => {
                let connection = rusqlite::Connection::open(file).expect("the file opens again");
                connection.execute_batch(sql).expect("the statement runs");
            }
            (None, None) => unreachable!("a store is over a file or a server"),
        }
    }

    /// The store of another replica on the same database; `None` for SQLite.
    pub async fn replica(&self) -> Option<Store> {
        Some(Store::connect(self.database.as_ref()?.url()).await.expect("the same database opens again"))
    }
}
