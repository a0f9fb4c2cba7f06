//! Access to the database file of a server.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rusqlite::{Connection, OpenFlags};

/// The database file in a server's data folder.
pub fn file(data: &Path) -> PathBuf {
    data.join("muster.db")
}

/// Opens the database for reading, beside the server.
pub fn read(data: &Path) -> Result<Connection> {
    let connection = Connection::open_with_flags(file(data), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    Ok(connection)
}

/// Opens a database for writing, with the settings of the store.
pub fn write(file: &Path) -> Result<Connection> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

/// The number of commits of all connections since the file was first opened, as SQLite counts them.
///
/// The number is the field `iChange` of the index that all connections share (<https://sqlite.org/walformat.html>).
pub fn commits(file: &Path) -> Result<u32> {
    const CHANGES: u64 = 8;
    let index = beside(file, "-shm");
    let mut number = [0; 4];
    let shared = File::open(&index).with_context(|| format!("cannot open {}", index.display()))?;
    shared.read_exact_at(&mut number, CHANGES)?;
    Ok(u32::from_ne_bytes(number))
}

/// Returns true if the log of a database has its full size, and is overwritten from now on.
///
/// Before that, every commit extends the file, which takes a disk several times as long.
pub fn is_warm(file: &Path) -> Result<bool> {
    // SQLite restarts the log after a thousand pages.
    const FULL: u64 = 1_000 * 4_096;
    Ok(beside(file, "-wal").metadata()?.len() >= FULL)
}

/// A file that SQLite keeps beside its database.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_commit_that_writes_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("some.db");
        let connection = write(&file).unwrap();
        connection.execute_batch("CREATE TABLE t (a)").unwrap();
        let before = commits(&file).unwrap();
        connection
            .execute_batch("BEGIN; INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); COMMIT")
            .unwrap();
        connection.execute_batch("BEGIN; SELECT * FROM t; COMMIT").unwrap();
        connection.execute_batch("INSERT INTO t VALUES (3)").unwrap();
        assert_eq!(commits(&file).unwrap() - before, 2);
    }
}
