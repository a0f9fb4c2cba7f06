//! The floor of a create: its rows, written to a database with the same schema in the same number of commits.
//!
//! The rows are read from the server's database, and written by direct calls of SQLite: without the store, without a
//! driver's thread, without checks and reads.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::database;
use crate::machine;
use crate::rows::TableRows;

/// The number of prepared statements in the cache: more than there are different ones.
const STATEMENTS: usize = 64;

/// The rows that one create leaves in a database.
pub struct Created {
    id: String,
    cluster: TableRows,
    groups: TableRows,
    profile: TableRows,
    nodes: TableRows,
    action: TableRows,
    children: TableRows,
    begun: TableRows,
    ended: TableRows,
}

impl Created {
    /// Reads the rows of a cluster.
    pub fn read(from: &Connection, id: &str) -> Result<Self> {
        let rows = |table, rest: &str| TableRows::read(from, table, rest, &id);
        let (begun, ended) = rows("events", "WHERE cluster_id = ? ORDER BY at, id")?.split(1);
        Ok(Self {
            id: id.to_owned(),
            cluster: rows("clusters", "WHERE id = ?")?,
            groups: rows("worker_groups", "WHERE cluster_id = ?")?,
            profile: rows("profiles", "WHERE id = (SELECT profile_id FROM clusters WHERE id = ?)")?,
            nodes: rows("nodes", "WHERE cluster_id = ?")?,
            action: rows("actions", "WHERE cluster_id = ? AND parent_id IS NULL")?,
            children: rows("actions", "WHERE cluster_id = ? AND parent_id IS NOT NULL")?,
            begun,
            ended,
        })
    }

    /// The number of rows.
    pub const fn count(&self) -> usize {
        let own = self.cluster.count() + self.groups.count() + self.profile.count() + self.action.count();
        own + self.nodes.count() + self.children.count() + self.begun.count() + self.ended.count()
    }
}

/// The steps of a create, each of which is durable before the next begins.
const STEPS: [FloorStep; 4] = [accept, claim, plan, finish];

type FloorStep = fn(&Prepared, &Connection) -> Result<()>;

/// The rows of a create in the states that they pass through.
struct Prepared<'c> {
    created: &'c Created,
    cluster: TableRows,
    action: TableRows,
    nodes: TableRows,
    children: TableRows,
    /// The action and the cluster while the action runs.
    running: TableRows,
    creating: TableRows,
}

impl<'c> Prepared<'c> {
    fn new(created: &'c Created) -> Result<Self> {
        let status = |word: &str| ("status", Value::from(word.to_owned()));
        let none = |column| (column, Value::Null);
        Ok(Self {
            created,
            cluster: created.cluster.with(&[status("INIT"), none("created_at"), none("updated_at")])?,
            action: created.action.with(&[status("READY"), none("owner"), none("ended_at")])?,
            nodes: created.nodes.with(&[status("CREATING"), none("physical_id"), none("created_at")])?,
            children: created.children.with(&[status("RUNNING"), none("ended_at")])?,
            running: created.action.with(&[status("RUNNING")])?,
            creating: created.cluster.with(&[status("CREATING")])?,
        })
    }
}

fn accept(rows: &Prepared, to: &Connection) -> Result<()> {
    rows.created.profile.insert(to)?;
    rows.cluster.insert(to)?;
    rows.created.groups.insert(to)?;
    rows.action.insert(to)?;
    rows.created.begun.insert(to)?;
    count(to, "change")
}

fn claim(rows: &Prepared, to: &Connection) -> Result<()> {
    const LOCK: &str = "INSERT INTO locks (target, action_id, exclusive) SELECT target, id, 1 FROM actions WHERE id = \
                        (SELECT id FROM actions WHERE target = ? AND parent_id IS NULL)";
    rows.running.update(to, &["status", "owner", "fence", "started_at"])?;
    rows.creating.update(to, &["status", "fence", "change", "updated_at"])?;
    to.prepare_cached(LOCK)?.execute([&rows.created.id])?;
    count(to, "fence")?;
    count(to, "change")
}

fn plan(rows: &Prepared, to: &Connection) -> Result<()> {
    rows.created.action.update(to, &["applied_at", "updated_at"])?;
    rows.nodes.insert(to)?;
    rows.children.insert(to)?;
    rows.created.cluster.update(to, &["next_index", "change"])?;
    count(to, "change")
}

fn finish(rows: &Prepared, to: &Connection) -> Result<()> {
    const ENDED: &[&str] = &["status", "status_reason", "ended_at", "updated_at"];
    const UNLOCK: &str = "DELETE FROM locks WHERE target = ?";
    rows.created.action.update(to, ENDED)?;
    rows.created
        .nodes
        .update(to, &["status", "status_reason", "physical_id", "starts", "created_at", "updated_at"])?;
    rows.created
        .cluster
        .update(to, &["status", "status_reason", "observed", "change", "created_at", "updated_at"])?;
    rows.created.children.update(to, ENDED)?;
    rows.created.ended.insert(to)?;
    to.prepare_cached(UNLOCK)?.execute([&rows.created.id])?;
    count(to, "change")
}

fn count(to: &Connection, counter: &str) -> Result<()> {
    to.prepare_cached("UPDATE counters SET value = value + 1 WHERE name = ?")?.execute([counter])?;
    Ok(())
}

/// A database with the schema of a server's.
pub struct Floor {
    connection: Connection,
}

impl Floor {
    /// Creates an empty database with the schema of another one.
    pub fn new(file: &Path, like: &Connection) -> Result<Self> {
        let connection = database::write(file)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let mut schema =
            like.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")?;
        for sql in schema.query_map([], |row| row.get::<_, String>(0))? {
            connection.execute_batch(&sql?)?;
        }
        TableRows::read(like, "counters", "WHERE ? = 0", &0)?.insert(&connection)?;
        Ok(Self { connection })
    }

    /// Writes all rows, step by step, in this many commits, and returns the duration.
    ///
    /// Time in which this thread waited for a core is subtracted. It is not subtracted from the server's time, so that a busy
    /// machine makes the ratio worse and never better.
    pub fn write(&self, all: &[Created], commits: usize) -> Result<Duration> {
        let prepared = all.iter().map(Prepared::new).collect::<Result<Vec<_>>>()?;
        let steps: Vec<(FloorStep, &Prepared)> =
            STEPS.iter().flat_map(|step| prepared.iter().map(|rows| (*step, rows))).collect();
        let (waited, started) = (machine::waited()?, Instant::now());
        for group in steps.chunks(steps.len().div_ceil(commits.max(1)).max(1)) {
            self.connection.execute_batch("BEGIN IMMEDIATE")?;
            for (step, rows) in group {
                step(rows, &self.connection)?;
            }
            self.connection.execute_batch("COMMIT")?;
        }
        Ok(started.elapsed().saturating_sub(machine::waited()?.saturating_sub(waited)))
    }
}
