//! The PostgreSQL server of a test run, and a database for each test.

use std::path::PathBuf;
use std::process::{Command, Output};

use uuid::Uuid;

use crate::shared;
use crate::wire::PostgresParts;

/// The PostgreSQL server of this test run, or `None` if the test is skipped.
pub async fn postgres() -> Option<Postgres> {
    shared::obtain("postgres").await.map(|parts| Postgres { parts })
}

/// A PostgreSQL server.
#[derive(Debug, Clone)]
pub struct Postgres {
    parts: PostgresParts,
}

impl Postgres {
    /// Creates an empty database that is dropped with the returned value.
    pub async fn database(&self) -> Database {
        let name = format!("test_{}", Uuid::new_v4().simple());
        let mut createdb = self.tool("createdb");
        createdb.arg("--maintenance-db").arg(&self.parts.url).arg(&name);
        run(createdb).await.expect("the testbed's PostgreSQL makes a database");
        let url = with_database(&self.parts.url, &name);
        Database { server: self.clone(), name, url }
    }

    /// The address of the server's own database (`postgres`), for tests about the server as a whole.
    pub fn url(&self) -> &str {
        &self.parts.url
    }

    fn tool(&self, name: &str) -> Command {
        Command::new(match &self.parts.bin_dir {
            Some(bin_dir) => bin_dir.join(name),
            None => PathBuf::from(name),
        })
    }
}

/// A database of one test, which is dropped with this value, even if clients are still connected.
#[derive(Debug)]
pub struct Database {
    server: Postgres,
    name: String,
    url: String,
}

impl Database {
    /// The address, as `postgres://user@host:port/name`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The name on the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs statements with `psql` and returns the rows as lines, with `|` between columns.
    pub async fn psql(&self, sql: &str) -> String {
        let mut psql = self.server.tool("psql");
        psql.args(["--no-psqlrc", "--no-align", "--tuples-only", "--quiet", "--set", "ON_ERROR_STOP=1"]);
        psql.arg("--dbname").arg(&self.url).arg("--command").arg(sql);
        run(psql).await.unwrap_or_else(|why| panic!("{sql}\n{why}")).trim_end().to_owned()
    }

    /// Creates another database that is restored from a dump of this one.
    pub async fn dump_and_restore(&self) -> Self {
        let restored = self.server.database().await;
        let dump = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        let mut pg_dump = self.server.tool("pg_dump");
        pg_dump.arg("--format=custom").arg("--file").arg(dump.path()).arg("--dbname").arg(&self.url);
        run(pg_dump).await.expect("the database is dumped");
        let mut pg_restore = self.server.tool("pg_restore");
        pg_restore.arg("--exit-on-error").arg("--dbname").arg(&restored.url).arg(dump.path());
        run(pg_restore).await.expect("the dump is restored");
        restored
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let mut dropdb = self.server.tool("dropdb");
        dropdb
            .args(["--force", "--if-exists", "--maintenance-db"])
            .arg(&self.server.parts.url)
            .arg(&self.name);
        if let Err(why) = finish("dropdb", dropdb.output()) {
            eprintln!("the database {} is left behind: {why}", self.name);
        }
    }
}

async fn run(command: Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    finish(&name, tokio::process::Command::from(command).output().await)
}

fn finish(name: &str, ended: std::io::Result<Output>) -> Result<String, String> {
    let output = ended.map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!(
        "{name} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    ))
}

/// The same address with another database in it.
fn with_database(url: &str, name: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, None), |(address, query)| (address, Some(query)));
    let authority = address.find("://").map_or(0, |at| at + 3);
    let end = address[authority..].find('/').map_or(address.len(), |at| authority + at);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}/{name}{query}", &address[..end])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("postgres://muster@127.0.0.1:5432/postgres", "postgres://muster@127.0.0.1:5432/test_1")]
    #[case("postgres://u:p%2F@db.example:5432", "postgres://u:p%2F@db.example:5432/test_1")]
    #[case("postgres://u@db/postgres?sslmode=disable", "postgres://u@db/test_1?sslmode=disable")]
    #[case("postgresql:///postgres?host=/run/postgresql", "postgresql:///test_1?host=/run/postgresql")]
    fn a_databases_address_is_the_servers_with_another_name(#[case] server: &str, #[case] expected: &str) {
        assert_eq!(with_database(server, "test_1"), expected);
    }
}
