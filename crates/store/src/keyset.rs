//! Lists in pages that stay right while rows come and go: each page begins behind the last row of the one before.

use serde::{Deserialize, Serialize};

use crate::connection::Dialect;
use crate::error::StoreError;
use crate::value::{Row, Value};

/// The end of a page: the sort values of its last row, and its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    keys: Vec<Key>,
    id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Key {
    Int(i64),
    Text(String),
}

impl Cursor {
    /// Whether it comes from a list of this order: anything else cannot be compared with its columns.
    pub(crate) fn check(&self, sort: &[(SortColumn, Direction)]) -> Result<(), StoreError> {
        let fits = |((column, _), key): (&(SortColumn, Direction), &Key)| {
            column.is_text == matches!(key, Key::Text(_))
        };
        if self.keys.len() == sort.len() && sort.iter().zip(&self.keys).all(fits) {
            return Ok(());
        }
        Err(StoreError::ForeignCursor)
    }
}

/// A column to sort by. Where it may be NULL, `expression` says where those go: first when ascending.
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
    /// The column that it stands for.
    fn column(self, dialect: Dialect) -> SortColumn;
}

/// Declares what a list can be sorted by, each with its column.
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

/// Up or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Small ones first.
    #[default]
    Ascending,
    /// Large ones first.
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

/// Conditions that are put together with their arguments.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    conditions: Vec<String>,
    pub(crate) arguments: Vec<Value>,
}

impl Filter {
    /// The place of one more argument.
    pub(crate) fn place(&mut self, value: impl crate::value::IntoValue) -> String {
        self.arguments.push(value.into_value());
        format!("${}", self.arguments.len())
    }

    /// The position of the next argument.
    pub(crate) fn next_place(&self) -> String {
        format!("${}", self.arguments.len() + 1)
    }

    pub(crate) fn add(&mut self, condition: impl Into<String>) {
        self.conditions.push(condition.into());
    }

    /// `column = …`; none asks for nothing in particular.
    pub(crate) fn equal(&mut self, column: &str, value: Option<impl crate::value::IntoValue>) {
        if let Some(value) = value {
            let place = self.place(value);
            self.add(format!("{column} = {place}"));
        }
    }

    /// Rows whose column begins with a text.
    pub(crate) fn prefix(&mut self, column: &str, prefix: &str) {
        let (from, upto) = (self.place(prefix), self.place(format!("{prefix}\u{10ffff}")));
        self.add(format!("{column} >= {from} AND {column} < {upto}"));
    }

    /// `column IN (…)`; an empty list asks for nothing in particular.
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

    /// The same as one argument, however many they are: of many places each number would be another statement.
    pub(crate) fn any_of_ids<T: ToString + Serialize>(&mut self, dialect: Dialect, column: &str, ids: &[T]) {
        if !ids.is_empty() {
            let (condition, argument) = dialect.any_of(column, &self.next_place(), ids);
            self.add(condition);
            self.arguments.push(argument);
        }
    }

    /// Only what comes behind the cursor.
    pub(crate) fn after(&mut self, sort: &[(SortColumn, Direction)], id: &str, cursor: &Cursor) {
        let mut equal: Vec<String> = Vec::new();
        let mut choices = Vec::new();
        for ((column, direction), key) in sort.iter().zip(&cursor.keys) {
            let place = match key {
                Key::Int(value) => self.place(*value),
                Key::Text(value) => self.place(value),
            };
            let (_, beyond) = direction.words();
            let expression = column.expression;
            if equal.is_empty() {
                // Says nothing new, but lets the database begin there instead of at the first row.
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

/// The sorted values as extra columns, so that the last row of a page becomes a cursor.
pub(crate) fn key_columns(sort: &[(SortColumn, Direction)]) -> String {
    sort.iter().flat_map(|(column, _)| [", ", column.expression]).collect()
}

/// The cursor behind a row whose extra columns begin at `first`.
pub(crate) fn cursor(
    row: &Row,
    first: usize,
    sort: &[(SortColumn, Direction)],
    id: String,
) -> Result<Cursor, StoreError> {
    let key = |(offset, (column, _)): (usize, &(SortColumn, Direction))| {
        Ok(if column.is_text {
            Key::Text(row.text(first + offset)?)
        } else {
            Key::Int(row.int(first + offset)?)
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
        let cursor = Cursor { keys: vec![Key::Text("b".into()), Key::Int(7)], id: "x".into() };
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
        let cursor = Cursor { keys: vec![Key::Text("b".into())], id: "x".into() };
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
