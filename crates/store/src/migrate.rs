//! The migration of a database to the present schema, and the refusal of a database that is too new.

use sqlx::{Executor as _, PgPool};
use uuid::Uuid;

use crate::connection::Connection;
use crate::error::StoreError;
use crate::sqlite::at_once;
use crate::transaction::Transaction;
use crate::value::args;

/// One step of the schema.
struct Migration {
    version: i64,
    /// The lowest schema version that a program must support to use a database after this step.
    min_reader: i64,
    sql: &'static str,
    /// The statements for PostgreSQL only.
    postgres: &'static str,
    /// The statements for SQLite only.
    sqlite: &'static str,
}

/// All steps, oldest first. A step that is released is never changed.
const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        min_reader: 1,
        sql: include_str!("../migrations/0001_base.sql"),
        postgres: include_str!("../migrations/0001_postgres.sql"),
        sqlite: include_str!("../migrations/0001_sqlite.sql"),
    },
    Migration {
        version: 2,
        min_reader: 1,
        sql: include_str!("../migrations/0002_base.sql"),
        postgres: "",
        sqlite: "",
    },
    // Older programs number changes by transaction ids.
    Migration {
        version: 3,
        min_reader: 3,
        sql: "",
        postgres: include_str!("../migrations/0003_postgres.sql"),
        sqlite: "",
    },
    Migration {
        version: 4,
        min_reader: 3,
        sql: include_str!("../migrations/0004_base.sql"),
        postgres: "",
        sqlite: "",
    },
    Migration {
        version: 5,
        min_reader: 3,
        sql: include_str!("../migrations/0005_base.sql"),
        postgres: "",
        sqlite: "",
    },
    Migration {
        version: 6,
        min_reader: 3,
        sql: include_str!("../migrations/0006_base.sql"),
        postgres: "",
        sqlite: "",
    },
    Migration {
        version: 7,
        min_reader: 3,
        sql: include_str!("../migrations/0007_base.sql"),
        postgres: "",
        sqlite: "",
    },
    Migration {
        version: 8,
        min_reader: 3,
        sql: include_str!("../migrations/0008_base.sql"),
        postgres: "",
        sqlite: "",
    },
    Migration {
        version: 9,
        min_reader: 3,
        sql: include_str!("../migrations/0009_base.sql"),
        postgres: "",
        sqlite: "",
    },
];

/// The schema version of this program.
pub const SCHEMA_VERSION: i64 = 9;

/// The lock that keeps replicas that start together from applying the same step twice.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(7305413)";

/// Removes the time limits: a step may take as long as it needs, and so may waiting for the replica that applies it.
const WITHOUT_LIMITS: &str = "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0";

/// Migrates an SQLite file. After an error the connection must be dropped, which rolls the transaction back.
pub(crate) fn sqlite(connection: &mut rusqlite::Connection) -> Result<(), StoreError> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let present = at_once(version(&mut Transaction::new(Connection::Sqlite(connection))))?;
    for migration in pending(present)? {
        connection.execute_batch(migration.sql)?;
        connection.execute_batch(migration.sqlite)?;
        at_once(record_version(&mut Transaction::new(Connection::Sqlite(connection)), migration))?;
    }
    Ok(connection.execute_batch("COMMIT")?)
}

pub(crate) async fn postgres(pool: &PgPool) -> Result<(), StoreError> {
    let mut open = pool.begin().await?;
    open.execute(sqlx::raw_sql(WITHOUT_LIMITS)).await?;
    open.execute(MIGRATION_LOCK).await?;
    let present = version(&mut Transaction::new(Connection::Postgres(&mut open))).await?;
    for migration in pending(present)? {
        open.execute(sqlx::raw_sql(migration.sql)).await?;
        open.execute(sqlx::raw_sql(migration.postgres)).await?;
        record_version(&mut Transaction::new(Connection::Postgres(&mut open)), migration).await?;
    }
    open.commit().await?;
    Ok(())
}

/// The metadata of a database: its version, and the versions of Muster that can read it.
#[derive(Debug, Clone, Copy)]
struct Present {
    version: i64,
    min_reader: i64,
}

async fn version(tx: &mut Transaction<'_>) -> Result<Present, StoreError> {
    let exists = match tx.dialect() {
        crate::Dialect::Sqlite => "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'muster'",
        crate::Dialect::Postgres => {
            "SELECT 1::bigint FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'muster'"
        }
    };
    if tx.row(exists, args![]).await?.is_none() {
        return Ok(Present { version: 0, min_reader: 0 });
    }
    let row = tx.one("SELECT version, min_reader FROM muster", args![]).await?;
    Ok(Present { version: row.int(0)?, min_reader: row.int(1)? })
}

/// Refuses a database that another replica has made unreadable for this version meanwhile.
pub(crate) async fn check_readable(tx: &mut Transaction<'_>) -> Result<(), StoreError> {
    let row = tx.one("SELECT min_reader FROM muster", args![]).await?;
    readable(row.int(0)?)
}

const fn readable(min_reader: i64) -> Result<(), StoreError> {
    if min_reader > SCHEMA_VERSION {
        return Err(StoreError::TooNew { needed: min_reader, known: SCHEMA_VERSION });
    }
    Ok(())
}

fn pending(present: Present) -> Result<impl Iterator<Item = &'static Migration>, StoreError> {
    readable(present.min_reader)?;
    Ok(MIGRATIONS.iter().filter(move |migration| migration.version > present.version))
}

async fn record_version(tx: &mut Transaction<'_>, migration: &Migration) -> Result<(), StoreError> {
    const RECORD: &str = "INSERT INTO muster (singleton, database_id, token_key, version, min_reader) VALUES (1, $1, $2, $3, $4) \
                        ON CONFLICT (singleton) DO UPDATE SET version = excluded.version, min_reader = excluded.min_reader";
    let id = Uuid::new_v4().to_string();
    // Two UUIDs, whose 244 random bits cannot be guessed.
    let key = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    tx.execute(RECORD, args![id, key, migration.version, migration.min_reader]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_in_order_and_end_at_the_present_version() {
        let versions: Vec<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert!(versions.is_sorted());
        assert_eq!(versions.last(), Some(&SCHEMA_VERSION));
    }

    #[test]
    fn a_newer_database_is_refused_only_if_it_says_so() {
        assert!(pending(Present { version: SCHEMA_VERSION + 1, min_reader: SCHEMA_VERSION }).is_ok());
        assert!(pending(Present { version: SCHEMA_VERSION + 1, min_reader: SCHEMA_VERSION + 1 }).is_err());
    }
}
