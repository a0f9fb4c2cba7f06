//! The floor: the rows that a create leaves, written raw to the same kind of database, in as many commits.
//!
//! The rows are read from the server's own database, so that they are the same, and written with SQLite's own
//! calls: no store of ours, no driver's thread, no checks, no reads.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::database;
use crate::machine;
use crate::rows::Rows;

/// Statements that are kept prepared: more than there are different ones.
const STATEMENTS: usize = 64;

/// What one create leaves in a database.
pub struct Created {
    id: String,
    cluster: Rows,
    groups: Rows,
    profile: Rows,
    nodes: Rows,
    action: Rows,
    children: Rows,
    begun: Rows,
    ended: Rows,
}

impl Created {
    /// Reads what was written for a cluster.
    pub fn read(from: &Connection, id: &str) -> Result<Self> {
        let rows = |table, rest: &str| Rows::read(from, table, rest, &id);
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

    /// How many rows these are.
    pub const fn count(&self) -> usize {
        let own = self.cluster.count() + self.groups.count() + self.profile.count() + self.action.count();
        own + self.nodes.count() + self.children.count() + self.begun.count() + self.ended.count()
    }
}

/// The steps of a create, each of which has to be durable before the next.
const STEPS: [Step; 4] = [accept, claim, plan, finish];

type Step = fn(&Prepared, &Connection) -> Result<()>;

/// What is written, with its rows as they are at first.
struct Prepared<'c> {
    created: &'c Created,
    cluster: Rows,
    action: Rows,
    nodes: Rows,
    children: Rows,
    /// The action once it runs, and the cluster while it does.
    running: Rows,
    creating: Rows,
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

/// A database of its own, with the schema of a server's.
pub struct Floor {
    connection: Connection,
}

impl Floor {
    /// Makes an empty database like the server's.
    pub fn new(file: &Path, like: &Connection) -> Result<Self> {
        let connection = database::write(file)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let mut schema =
            like.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")?;
        for sql in schema.query_map([], |row| row.get::<_, String>(0))? {
            connection.execute_batch(&sql?)?;
        }
        Rows::read(like, "counters", "WHERE ? = 0", &0)?.insert(&connection)?;
        Ok(Self { connection })
    }

    /// Writes all of them, step by step, in this many commits; tells how long that took.
    ///
    /// Time in which others had all cores is left out: it is no part of a floor. The server's is left in, so that a
    /// busy machine makes a ratio worse, and never better.
    pub fn write(&self, all: &[Created], commits: usize) -> Result<Duration> {
        let prepared = all.iter().map(Prepared::new).collect::<Result<Vec<_>>>()?;
        let steps: Vec<(Step, &Prepared)> =
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
