//! Rows of any table, copied without interpretation.

use anyhow::{Context as _, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, ToSql, params_from_iter};

/// The most arguments of one statement: below SQLite's limit of 32,766, and few enough that the text is parsed quickly.
const ARGUMENTS: usize = 8_000;

/// Some rows of one table.
#[derive(Debug, Clone)]
pub struct TableRows {
    table: &'static str,
    columns: Vec<String>,
    values: Vec<Vec<Value>>,
}

impl TableRows {
    /// Reads the rows of `table` that `rest` chooses.
    pub fn read(from: &Connection, table: &'static str, rest: &str, id: &dyn ToSql) -> Result<Self> {
        let mut statement = from.prepare(&format!("SELECT * FROM {table} {rest}"))?;
        let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        let row = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|column| row.get(column)).collect();
        let values = statement.query_map([id], row)?.collect::<Result<_, _>>()?;
        Ok(Self { table, columns, values })
    }

    /// The number of rows.
    pub const fn count(&self) -> usize {
        self.values.len()
    }

    /// The same rows with other values in some columns.
    pub fn with(&self, changes: &[(&str, Value)]) -> Result<Self> {
        let mut rows = self.clone();
        for (column, value) in changes {
            let place = self.place(column)?;
            rows.values.iter_mut().for_each(|row| row[place] = value.clone());
        }
        Ok(rows)
    }

    /// Splits the rows after the first `count`.
    pub fn split(mut self, count: usize) -> (Self, Self) {
        let values = self.values.split_off(count.min(self.values.len()));
        let rest = Self { values, ..self.clone() };
        (self, rest)
    }

    /// Inserts the rows, many in one statement.
    pub fn insert(&self, into: &Connection) -> Result<()> {
        let width = self.columns.len();
        for some in self.values.chunks((ARGUMENTS / width).max(1)) {
            let row = format!("({})", vec!["?"; width].join(", "));
            let rows = vec![row; some.len()].join(", ");
            let sql = format!("INSERT INTO {} ({}) VALUES {rows}", self.table, self.columns.join(", "));
            into.prepare_cached(&sql)?.execute(params_from_iter(some.iter().flatten()))?;
        }
        Ok(())
    }

    /// Updates some columns of each row, by id.
    pub fn update(&self, into: &Connection, columns: &[&str]) -> Result<()> {
        let places = columns.iter().chain(&["id"]).map(|column| self.place(column));
        let places = places.collect::<Result<Vec<_>>>()?;
        let set: Vec<String> = columns.iter().map(|column| format!("{column} = ?")).collect();
        let sql = format!("UPDATE {} SET {} WHERE id = ?", self.table, set.join(", "));
        let mut statement = into.prepare_cached(&sql)?;
        for row in &self.values {
            statement.execute(params_from_iter(places.iter().map(|place| &row[*place])))?;
        }
        Ok(())
    }

    fn place(&self, column: &str) -> Result<usize> {
        let found = self.columns.iter().position(|name| name == column);
        found.with_context(|| format!("{} has no column {column}", self.table))
    }
}
