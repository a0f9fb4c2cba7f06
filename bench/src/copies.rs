//! Large databases: copies of one cluster, with its nodes, actions and events.

use std::path::Path;

use anyhow::Result;
use rusqlite::Connection;

use crate::database;

/// The columns with ids by table; the number of the copy is added to them.
const TABLES: &[(&str, &[&str])] = &[
    ("profiles", &["id"]),
    ("clusters", &["id", "profile_id"]),
    ("worker_groups", &["cluster_id"]),
    ("nodes", &["id", "cluster_id", "profile_id"]),
    ("actions", &["id", "target", "cluster_id", "parent_id"]),
    ("events", &["id", "object_id", "cluster_id", "action_id"]),
];

/// The columns of clusters that must be unique.
const NAMES: &[&str] = &["name", "object_name", "name_claim"];

/// Adds this many copies of all rows to a stopped server's database.
pub fn add(data: &Path, copies: u32) -> Result<()> {
    let connection = database::write(&database::file(data))?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for (table, ids) in TABLES {
        connection.execute_batch(&format!("CREATE TEMP TABLE originals AS SELECT * FROM {table}"))?;
        let columns = columns(&connection, table)?;
        let copied: Vec<String> = columns.iter().map(|column| copy_of(table, ids, column)).collect();
        let sql = format!(
            "WITH RECURSIVE copies (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < ?) \
             INSERT INTO {table} ({}) SELECT {} FROM copies, originals AS o",
            columns.join(", "),
            copied.join(", ")
        );
        connection.execute(&sql, [copies])?;
        connection.execute_batch("DROP TABLE originals")?;
    }
    connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(())
}

fn copy_of(table: &str, ids: &[&str], column: &str) -> String {
    match column {
        _ if ids.contains(&column) => format!("substr(o.{column}, 1, 24) || printf('%012x', n)"),
        _ if table == "clusters" && NAMES.contains(&column) => format!("o.{column} || '-' || n"),
        "init_at" => "o.init_at + n".to_owned(),
        _ => format!("o.{column}"),
    }
}

fn columns(connection: &Connection, table: &str) -> Result<Vec<String>> {
    let statement = connection.prepare(&format!("SELECT * FROM {table} LIMIT 0"))?;
    Ok(statement.column_names().into_iter().map(str::to_owned).collect())
}
