//! Keyset pagination, which stays correct while rows are added and removed: each page begins after the last row of the
//! previous page.

use serde::{Deserialize, Serialize};

use crate::connection::Dialect;
use crate::error::StoreError;
use crate::value::{Row, Value};

/// The end of a page: the sort values of its last row, and its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    keys: Vec<CursorKey>,
    id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum CursorKey {
    Int(i64),
    Text(String),
}

impl Cursor {
    /// Checks that the cursor comes from a list with this order: other values cannot be compared with the columns.
    pub(crate) fn check(&self, sort: &[(SortColumn, Direction)]) -> Result<(), StoreError> {
        let fits = |((column, _), key): (&(SortColumn, Direction), &CursorKey)| {
            column.is_text == matches!(key, CursorKey::Text(_))
        };
        if self.keys.len() == sort.len() && sort.iter().zip(&self.keys).all(fits) {
            return Ok(());
        }
        Err(StoreError::ForeignCursor)
    }
}

/// A column to sort by. If it may be NULL, `expression` replaces NULL by a value that sorts first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SortColumn {
    pub(crate) expression: &'static str,
    pub(crate) is_text: bool,
}

impl SortColumn {
    pub(crate) const fn text(expression: &'static str) -> Self {
        Self { expression, is_text: true }
    }

    pub(crate) const fn number(expression: &'static str) -> Self {
        Self { expression, is_text: false }
    }
}

/// The keys by which a list can be sorted.
pub(crate) trait SortKey: Copy {
    /// The column of the key.
    fn column(self, dialect: Dialect) -> SortColumn;
}

/// Declares the sort keys of a list, each with its column.
macro_rules! sort_keys {
    ($(#[$doc:meta])* $name:ident { $($(#[$key_doc:meta])* $key:ident = $type:ident($column:literal)),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$key_doc])* $key),+
        }

        impl $crate::keyset::SortKey for $name {
            fn column(self, _: $crate::connection::Dialect) -> $crate::keyset::SortColumn {
                match self {
                    $(Self::$key => $crate::keyset::SortColumn::$type($column)),+
                }
            }
        }
    };
}

pub(crate) use sort_keys;

/// The direction of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Small values first.
    #[default]
    Ascending,
    /// Large values first.
    Descending,
}

impl Direction {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Ascending => ("ASC", ">"),
            Self::Descending => ("DESC", "<"),
        }
    }
}

/// The conditions of a query, with their arguments.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    conditions: Vec<String>,
    pub(crate) arguments: Vec<Value>,
}

impl Filter {
    /// Adds an argument, and returns its placeholder.
    pub(crate) fn place(&mut self, value: impl crate::value::IntoValue) -> String {
        self.arguments.push(value.into_value());
        format!("${}", self.arguments.len())
    }

    /// The placeholder of the next argument.
    pub(crate) fn next_place(&self) -> String {
        format!("${}", self.arguments.len() + 1)
    }

    pub(crate) fn add(&mut self, condition: impl Into<String>) {
        self.conditions.push(condition.into());
    }

    /// Adds `column = …`; `None` adds no condition.
    pub(crate) fn equal(&mut self, column: &str, value: Option<impl crate::value::IntoValue>) {
        if let Some(value) = value {
            let place = self.place(value);
            self.add(format!("{column} = {place}"));
        }
    }

    /// Adds a condition for rows whose column begins with a text.
    pub(crate) fn prefix(&mut self, column: &str, prefix: &str) {
        let (from, upto) = (self.place(prefix), self.place(format!("{prefix}\u{10ffff}")));
        self.add(format!("{column} >= {from} AND {column} < {upto}"));
    }

    /// Adds `column IN (…)`; an empty list adds no condition.
    pub(crate) fn any_of(
        &mut self,
        column: &str,
        values: impl IntoIterator<Item = impl crate::value::IntoValue>,
    ) {
        let places: Vec<String> = values.into_iter().map(|value| self.place(value)).collect();
        if !places.is_empty() {
            self.add(format!("{column} IN ({})", places.join(", ")));
        }
    }

    /// Adds the same as [`Self::any_of`] with one argument: with one placeholder for each id, every number of ids would
    /// need another prepared statement.
    pub(crate) fn any_of_ids<T: ToString + Serialize>(&mut self, dialect: Dialect, column: &str, ids: &[T]) {
        if !ids.is_empty() {
            let (condition, argument) = dialect.any_of(column, &self.next_place(), ids);
            self.add(condition);
            self.arguments.push(argument);
        }
    }

    /// Adds a condition for rows after the cursor.
    pub(crate) fn after(&mut self, sort: &[(SortColumn, Direction)], id: &str, cursor: &Cursor) {
        let mut equal: Vec<String> = Vec::new();
        let mut choices = Vec::new();
        for ((column, direction), key) in sort.iter().zip(&cursor.keys) {
            let place = match key {
                CursorKey::Int(value) => self.place(*value),
                CursorKey::Text(value) => self.place(value),
            };
            let (_, beyond) = direction.words();
            let expression = column.expression;
            if equal.is_empty() {
                // Redundant, but lets the database begin there in the index instead of at the first row.
                self.add(format!("{expression} {beyond}= {place}"));
            }
            choices
                .push([equal.as_slice(), &[format!("{expression} {beyond} {place}")]].concat().join(" AND "));
            equal.push(format!("{expression} = {place}"));
        }
        let place = self.place(&cursor.id);
        choices.push([equal.as_slice(), &[format!("{id} > {place}")]].concat().join(" AND "));
        self.add(format!("({})", choices.join(" OR ")));
    }

    /// `WHERE … AND …`, or nothing.
    pub(crate) fn to_where(&self) -> String {
        if self.conditions.is_empty() {
            String::new()
        } else {
            format!("WHERE {}", self.conditions.join(" AND "))
        }
    }
}

/// `ORDER BY …, id`.
pub(crate) fn order_by(sort: &[(SortColumn, Direction)], id: &str) -> String {
    let mut columns: Vec<String> = sort
        .iter()
        .map(|(column, direction)| format!("{} {}", column.expression, direction.words().0))
        .collect();
    columns.push(format!("{id} ASC"));
    format!("ORDER BY {}", columns.join(", "))
}

/// The sort values as extra columns, from which the cursor after the last row of a page is made.
pub(crate) fn key_columns(sort: &[(SortColumn, Direction)]) -> String {
    sort.iter().flat_map(|(column, _)| [", ", column.expression]).collect()
}

/// The cursor after a row whose extra columns begin at `first`.
pub(crate) fn cursor(
    row: &Row,
    first: usize,
    sort: &[(SortColumn, Direction)],
    id: String,
) -> Result<Cursor, StoreError> {
    let key = |(offset, (column, _)): (usize, &(SortColumn, Direction))| {
        Ok(if column.is_text {
            CursorKey::Text(row.text(first + offset)?)
        } else {
            CursorKey::Int(row.int(first + offset)?)
        })
    };
    Ok(Cursor { keys: sort.iter().enumerate().map(key).collect::<Result<_, StoreError>>()?, id })
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The items of the page.
    pub items: Vec<T>,
    /// The start of the next page, if there is one.
    pub next: Option<Cursor>,
    /// The number of items on all pages: on the last page, or if requested.
    pub total: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: SortColumn = SortColumn { expression: "name", is_text: true };
    const AGE: SortColumn = SortColumn { expression: "init_at", is_text: false };

    #[test]
    fn a_page_begins_behind_the_last_row_of_the_one_before() {
        let cursor = Cursor { keys: vec![CursorKey::Text("b".into()), CursorKey::Int(7)], id: "x".into() };
        let mut filter = Filter::default();
        filter.after(&[(NAME, Direction::Ascending), (AGE, Direction::Descending)], "id", &cursor);
        assert_eq!(
            filter.to_where(),
            "WHERE name >= $1 AND (name > $1 OR name = $1 AND init_at < $2 OR name = $1 AND init_at = $2 AND id > $3)"
        );
        assert_eq!(filter.arguments.len(), 3);
    }

    #[test]
    fn a_cursor_is_good_for_its_own_order_only() {
        let cursor = Cursor { keys: vec![CursorKey::Text("b".into())], id: "x".into() };
        let by = |sort: &[SortColumn]| {
            let sort: Vec<_> = sort.iter().map(|column| (*column, Direction::Ascending)).collect();
            cursor.check(&sort).is_ok()
        };
        assert!(by(&[NAME]));
        assert!(!by(&[AGE]) && !by(&[]) && !by(&[NAME, AGE]));
    }

    #[test]
    fn an_empty_list_of_values_asks_for_nothing() {
        let mut filter = Filter::default();
        filter.any_of("status", Vec::<String>::new());
        assert_eq!(filter.to_where(), "");
        filter.any_of("status", ["ACTIVE", "ERROR"]);
        assert_eq!(filter.to_where(), "WHERE status IN ($1, $2)");
    }

    #[test]
    fn ties_are_broken_by_id() {
        assert_eq!(order_by(&[(NAME, Direction::Descending)], "c.id"), "ORDER BY name DESC, c.id ASC");
    }
}
