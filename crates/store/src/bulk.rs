//! Inserts of many rows in few statements.

use std::fmt::Write as _;

use crate::connection::Dialect;
use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::Value;

/// The numbers of rows that one statement inserts. There are few sizes, so that prepared statements are reused; the
/// largest one keeps the widest table below the 32,766 arguments of SQLite.
const SIZES: [usize; 4] = [500, 50, 5, 1];

/// Inserts `rows` into `table (columns)`, with the clause `conflict` at the end of each statement.
pub(crate) async fn insert(
    tx: &mut Transaction<'_>,
    table: &'static str,
    columns: &'static [&'static str],
    conflict: &str,
    rows: Vec<Vec<Value>>,
) -> Result<(), StoreError> {
    let mut rows = rows.into_iter();
    while rows.len() > 0 {
        let size = SIZES.into_iter().find(|size| *size <= rows.len()).unwrap_or(1);
        let arguments: Vec<Value> = rows.by_ref().take(size).flatten().collect();
        tx.execute(statement(tx.dialect(), table, columns, conflict, size), arguments).await?;
    }
    Ok(())
}

/// Writes the text of an INSERT. On SQLite arguments have no number: SQLite searches numbered and named arguments
/// linearly at every parse and every binding, which would dominate the cost of a statement with thousands of them.
fn statement(dialect: Dialect, table: &str, columns: &[&str], conflict: &str, rows: usize) -> String {
    let mut text = format!("INSERT INTO {table} ({}) VALUES ", columns.join(", "));
    for row in 0..rows {
        text.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..columns.len() {
            let comma = if column == 0 { "" } else { ", " };
            let _ = match dialect {
                Dialect::Sqlite => write!(text, "{comma}?"),
                Dialect::Postgres => write!(text, "{comma}${}", row * columns.len() + column + 1),
            };
        }
        text.push(')');
    }
    if !conflict.is_empty() {
        let _ = write!(text, " {conflict}");
    }
    text
}

/// `ON CONFLICT (key) DO UPDATE SET a = excluded.a, …`.
pub(crate) fn update_on_conflict(key: &str, columns: &[&str]) -> String {
    let set: Vec<String> = columns.iter().map(|column| format!("{column} = excluded.{column}")).collect();
    format!("ON CONFLICT ({key}) DO UPDATE SET {}", set.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_numbered_through_all_rows_where_that_costs_nothing() {
        let sql = |dialect| statement(dialect, "t", &["a", "b"], "", 2);
        assert_eq!(sql(Dialect::Postgres), "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4)");
        assert_eq!(sql(Dialect::Sqlite), "INSERT INTO t (a, b) VALUES (?, ?), (?, ?)");
    }

    #[test]
    fn what_is_there_already_is_updated() {
        let conflict = update_on_conflict("id", &["a", "b"]);
        assert_eq!(conflict, "ON CONFLICT (id) DO UPDATE SET a = excluded.a, b = excluded.b");
    }
}
