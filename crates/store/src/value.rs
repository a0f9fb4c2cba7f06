//! The values of columns, which are integers or texts, and rows of them.

use muster_core::string_enum::Stored;
use muster_core::time::Timestamp;
use rusqlite::types::ValueRef;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row as _;

use crate::error::StoreError;

/// An argument of a statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
}

/// A type that can be stored in a column.
pub(crate) trait IntoValue {
    fn into_value(self) -> Value;
}

impl IntoValue for Value {
    fn into_value(self) -> Value {
        self
    }
}

impl IntoValue for i64 {
    fn into_value(self) -> Value {
        Value::Int(Some(self))
    }
}

impl IntoValue for u32 {
    fn into_value(self) -> Value {
        Value::Int(Some(i64::from(self)))
    }
}

impl IntoValue for bool {
    fn into_value(self) -> Value {
        Value::Int(Some(i64::from(self)))
    }
}

impl IntoValue for Timestamp {
    fn into_value(self) -> Value {
        Value::Int(Some(self.micros()))
    }
}

impl IntoValue for Option<Timestamp> {
    fn into_value(self) -> Value {
        Value::Int(self.map(Timestamp::micros))
    }
}

impl IntoValue for Option<i64> {
    fn into_value(self) -> Value {
        Value::Int(self)
    }
}

/// Replaces characters that a database cannot store: PostgreSQL refuses code 0, which the output of a workload may
/// contain. One such text must not fail the whole commit.
fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

impl IntoValue for &str {
    fn into_value(self) -> Value {
        Value::Text(Some(storable(self.to_owned())))
    }
}

impl IntoValue for String {
    fn into_value(self) -> Value {
        Value::Text(Some(storable(self)))
    }
}

impl IntoValue for &String {
    fn into_value(self) -> Value {
        Value::Text(Some(storable(self.clone())))
    }
}

impl IntoValue for Option<String> {
    fn into_value(self) -> Value {
        Value::Text(self.map(storable))
    }
}

/// A value as JSON text. Types of Muster can always be serialized.
pub(crate) fn json<T: Serialize>(value: &T) -> Value {
    Value::Text(Some(serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())))
}

/// JSON that may be absent, which is NULL.
pub(crate) fn opt_json<T: Serialize>(value: Option<&T>) -> Value {
    value.map_or(Value::Text(None), json)
}

/// The arguments of a statement: `args![id, now, status.as_str()]`.
macro_rules! args {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::value::IntoValue::into_value($value)),*]
    };
}

pub(crate) use args;

/// One row of a result; columns are read by position, in the order of the statement.
pub(crate) enum Row {
    Sqlite(Cells),
    Postgres(sqlx::postgres::PgRow),
}

/// The columns of an SQLite row. All texts of a row share one allocation, because most columns are texts.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    texts: String,
    cells: Vec<Cell>,
}

#[derive(Debug)]
enum Cell {
    Null,
    Integer(i64),
    /// The start and the end in `texts`.
    Text(usize, usize),
    /// A value that Muster never writes.
    Other,
}

impl Cells {
    pub(crate) fn read(row: &rusqlite::Row<'_>, columns: usize) -> Result<Self, StoreError> {
        let mut read = Self { texts: String::new(), cells: Vec::with_capacity(columns) };
        for column in 0..columns {
            let cell = match row.get_ref(column)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(value) => Cell::Integer(value),
                ValueRef::Text(text) => {
                    let start = read.texts.len();
                    let text = std::str::from_utf8(text)
                        .map_err(|error| StoreError::corrupt(format!("column {column}: {error}")))?;
                    read.texts.push_str(text);
                    Cell::Text(start, read.texts.len())
                }
                ValueRef::Real(_) | ValueRef::Blob(_) => Cell::Other,
            };
            read.cells.push(cell);
        }
        Ok(read)
    }

    fn text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        match self.cells.get(column) {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Text(start, end)) => Ok(self.texts.get(*start..*end)),
            other => Err(StoreError::corrupt(format!("column {column} is no text: {other:?}"))),
        }
    }

    fn int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        match self.cells.get(column) {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Integer(value)) => Ok(Some(*value)),
            other => Err(StoreError::corrupt(format!("column {column} is no number: {other:?}"))),
        }
    }
}

impl Row {
    pub(crate) fn int(&self, column: usize) -> Result<i64, StoreError> {
        self.opt_int(column)?.ok_or_else(|| StoreError::corrupt(format!("column {column} is NULL")))
    }

    pub(crate) fn opt_int(&self, column: usize) -> Result<Option<i64>, StoreError> {
        match self {
            Self::Sqlite(row) => row.int(column),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }

    pub(crate) fn text(&self, column: usize) -> Result<String, StoreError> {
        self.str(column).map(str::to_owned)
    }

    pub(crate) fn opt_text(&self, column: usize) -> Result<Option<String>, StoreError> {
        Ok(self.opt_str(column)?.map(str::to_owned))
    }

    fn str(&self, column: usize) -> Result<&str, StoreError> {
        self.opt_str(column)?.ok_or_else(|| StoreError::corrupt(format!("column {column} is NULL")))
    }

    fn opt_str(&self, column: usize) -> Result<Option<&str>, StoreError> {
        match self {
            Self::Sqlite(row) => row.text(column),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }

    pub(crate) fn bool(&self, column: usize) -> Result<bool, StoreError> {
        Ok(self.int(column)? != 0)
    }

    pub(crate) fn number<N: TryFrom<i64>>(&self, column: usize) -> Result<N, StoreError> {
        let value = self.int(column)?;
        N::try_from(value).map_err(|_| StoreError::corrupt(format!("column {column} holds {value}")))
    }

    pub(crate) fn time(&self, column: usize) -> Result<Timestamp, StoreError> {
        Ok(Timestamp::from_micros(self.int(column)?))
    }

    pub(crate) fn opt_time(&self, column: usize) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.opt_int(column)?.map(Timestamp::from_micros))
    }

    /// Parses an id or another text whose values every version knows.
    pub(crate) fn parse<T>(&self, column: usize) -> Result<T, StoreError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        self.str(column)?.parse().map_err(|error| StoreError::corrupt(format!("column {column}: {error}")))
    }

    pub(crate) fn opt_parse<T>(&self, column: usize) -> Result<Option<T>, StoreError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        let parse = |text: &str| {
            text.parse().map_err(|error| StoreError::corrupt(format!("column {column}: {error}")))
        };
        self.opt_str(column)?.map(parse).transpose()
    }

    /// Reads an enumeration; a value of a newer version is read as unknown.
    pub(crate) fn word<T: Stored>(&self, column: usize) -> Result<T, StoreError> {
        self.str(column).map(T::from_stored)
    }

    pub(crate) fn opt_word<T: Stored>(&self, column: usize) -> Result<Option<T>, StoreError> {
        Ok(self.opt_str(column)?.map(T::from_stored))
    }

    /// Reads a map, with a fast path for the empty map, the usual case.
    pub(crate) fn map<T: DeserializeOwned + Default>(&self, column: usize) -> Result<T, StoreError> {
        if self.str(column)? == "{}" { Ok(T::default()) } else { self.json(column) }
    }

    /// Reads a JSON document. Text that is not JSON becomes a JSON string, so that a row with such a text can be
    /// listed, run and ended.
    pub(crate) fn document(&self, column: usize) -> Result<serde_json::Value, StoreError> {
        let text = self.str(column)?;
        Ok(serde_json::from_str(text).unwrap_or_else(|_| text.into()))
    }

    pub(crate) fn opt_json<T: DeserializeOwned>(&self, column: usize) -> Result<Option<T>, StoreError> {
        if self.opt_str(column)?.is_none() { Ok(None) } else { self.json(column).map(Some) }
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T, StoreError> {
        serde_json::from_str(self.str(column)?)
            .map_err(|error| StoreError::corrupt(format!("column {column}: {error}")))
    }
}
